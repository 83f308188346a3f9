package chat

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// leaseTime is how long a session is reserved for an answer whose hub no longer renews the lease.
// Replicas may differ by a few seconds in their clocks.
const leaseTime = 15 * time.Second

// advanceSession reserves the next two seqs of a session, whose row it locks, and returns it. size
// is that of both messages.
func advanceSession(ctx context.Context, tx *sql.Tx, in session, title string, size int64, now time.Time) (session, error) {
	s, err := scanSession(tx.QueryRowContext(ctx, `UPDATE chat_sessions SET message_count = message_count + 2, size = size + $5, last_message_at = $1,
			updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END, title = CASE WHEN title = '' THEN $2 ELSE title END
		WHERE tenant_id = $3 AND key = $4 RETURNING `+sessionColumns, db.Micros(now), title, in.TenantID, in.Key, size))
	if errors.Is(err, sql.ErrNoRows) {
		return s, noSession()
	}
	return s, db.Wrap("update chat session", err)
}

// insertRun takes the lease of a session whose row is locked. It fails with api.Conflict while
// another answer is in progress.
func insertRun(ctx context.Context, tx *sql.Tx, in session, runID, workerID string, now time.Time) error {
	for range 2 {
		n, err := db.Affected(ctx, tx, "insert chat run", `INSERT INTO chat_runs (run_id, tenant_id, session_key, worker_id, alive_until)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT (session_key) DO NOTHING`, runID, in.TenantID, in.Key, workerID, db.Micros(now.Add(leaseTime)))
		if err != nil || n == 1 {
			return err
		}
		n, err = db.Affected(ctx, tx, "delete ended chat run", `DELETE FROM chat_runs WHERE tenant_id = $1 AND session_key = $2 AND alive_until < $3`,
			in.TenantID, in.Key, db.Micros(now))
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	return api.Conflict.New("An answer is in progress in this session: wait for its end, or cancel it.")
}

// requestCancel marks the run in progress of a session, for the hub that relays it. It fails with
// api.Conflict if there is none.
func requestCancel(ctx context.Context, q db.Querier, in session, now time.Time) (runID string, err error) {
	err = q.QueryRowContext(ctx, `UPDATE chat_runs SET cancel = TRUE WHERE tenant_id = $1 AND session_key = $2 AND alive_until >= $3 RETURNING run_id`,
		in.TenantID, in.Key, db.Micros(now)).Scan(&runID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", api.Conflict.New("No answer is in progress in this session.")
	}
	return runID, db.Wrap("cancel chat run", err)
}

// leased is a run of this hub.
type leased struct {
	RunID  string
	Cancel bool
}

// renewRuns renews the leases of all runs of a hub, of all tenants, and returns them.
func renewRuns(ctx context.Context, q db.Querier, workerID string, now time.Time) ([]leased, error) {
	return db.Collect(ctx, q, "renew chat runs", func(row db.Scanner) (l leased, err error) { return l, row.Scan(&l.RunID, &l.Cancel) },
		`UPDATE chat_runs SET alive_until = $1 WHERE worker_id = $2 RETURNING run_id, cancel`, db.Micros(now.Add(leaseTime)), workerID)
}

// savePartial stores the text of an answer in progress.
func savePartial(ctx context.Context, tx *sql.Tx, in session, m message) error {
	_, err := tx.ExecContext(ctx, `UPDATE chat_messages SET text = $1, content = $2
		WHERE tenant_id = $3 AND session_key = $4 AND seq = $5 AND id = $6 AND status = 'partial'`, m.Text, m.Content, in.TenantID, in.Key, m.Seq, m.ID)
	return db.Wrap("save partial answer", err)
}

// saveAnswer stores an answer that has ended and releases the lease. It reports whether the session
// still exists. The row of the session is locked first, as in every transaction that needs it.
func saveAnswer(ctx context.Context, tx *sql.Tx, in session, m message, runtimeSession string, now time.Time) (bool, error) {
	usage, err := usageText(m.Usage)
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE chat_sessions SET updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END,
			runtime_session = CASE WHEN $2 = '' THEN runtime_session ELSE $2 END, size = size + $6
		WHERE tenant_id = $3 AND key = $4 AND EXISTS (SELECT 1 FROM chat_runs WHERE tenant_id = $3 AND run_id = $5)`,
		db.Micros(now), runtimeSession, in.TenantID, in.Key, m.RunID, len(m.Text)+len(m.Content))
	if err != nil {
		return false, db.Wrap("update chat session", err)
	}
	n, err := db.Affected(ctx, tx, "save answer", `UPDATE chat_messages SET text = $1, content = $2, status = $3, model = $4, usage = $5,
			error_code = $6, error_message = $7
		WHERE tenant_id = $8 AND session_key = $9 AND seq = $10 AND id = $11 AND status = 'partial'`,
		m.Text, m.Content, m.Status, m.Model, usage, m.Failure.Code, m.Failure.Message, in.TenantID, in.Key, m.Seq, m.ID)
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM chat_runs WHERE tenant_id = $1 AND run_id = $2`, in.TenantID, m.RunID)
	return n == 1, db.Wrap("delete chat run", err)
}
