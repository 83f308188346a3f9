package chat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// leaseTime is how long a session is reserved for an answer whose hub no longer renews the lease.
// Replicas may differ by a few seconds in their clocks. A lease that ends much later was taken by a
// clock that was wrong, and has passed.
const leaseTime = 15 * time.Second

// Each transaction locks the row of a session, that of its run, and then its messages, in this
// order. An answer is only stored by the hub that has its run, whose row it locks before.

// expired is a condition for leases that have passed. Its arguments are those of expiry.
func expired(first int) string {
	return fmt.Sprintf("(alive_until < $%d OR alive_until > $%d)", first, first+1)
}

func expiry(now time.Time) (past, future int64) {
	return db.Micros(now), db.Micros(now.Add(2 * leaseTime))
}

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

// insertRun takes the lease of a session whose row is locked. It returns the id of a former run
// whose lease has passed, or "". It fails with api.Conflict while another answer is in progress.
func insertRun(ctx context.Context, tx *sql.Tx, in session, runID, workerID string, now time.Time) (former string, err error) {
	past, future := expiry(now)
	for range 2 {
		n, err := db.Affected(ctx, tx, "insert chat run", `INSERT INTO chat_runs (run_id, tenant_id, session_key, user_id, agent_name, worker_id, alive_until)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (session_key) DO NOTHING`,
			runID, in.TenantID, in.Key, in.UserID, in.AgentName, workerID, db.Micros(now.Add(leaseTime)))
		if err != nil || n == 1 {
			return former, err
		}
		err = tx.QueryRowContext(ctx, `DELETE FROM chat_runs WHERE tenant_id = $1 AND session_key = $2 AND `+expired(3)+` RETURNING run_id`,
			in.TenantID, in.Key, past, future).Scan(&former)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return "", db.Wrap("delete former chat run", err)
		}
	}
	return "", api.Conflict.New("An answer is in progress in this session: wait for its end, or cancel it.")
}

// hasRun reports whether an answer is in progress in a session whose row is locked.
func hasRun(ctx context.Context, tx *sql.Tx, s session, now time.Time) (bool, error) {
	past, future := expiry(now)
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM chat_runs WHERE tenant_id = $1 AND session_key = $2 AND NOT `+expired(3),
		s.TenantID, s.Key, past, future).Scan(&n)
	return n > 0, db.Wrap("read chat run", err)
}

// countRuns returns the number of answers in progress of the user and of the agent of a session, in
// all hubs. Transactions of one user wait for each other.
func countRuns(ctx context.Context, tx *sql.Tx, engine db.Engine, in session, now time.Time) (ofUser, ofAgent int, err error) {
	if engine == db.PostgreSQL {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, "chat_runs "+in.TenantID+" "+in.UserID); err != nil {
			return 0, 0, db.Wrap("lock chat runs of user", err)
		}
	}
	past, future := expiry(now)
	err = tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM chat_runs WHERE tenant_id = $1 AND user_id = $2 AND NOT `+expired(4)+`),
		(SELECT COUNT(*) FROM chat_runs WHERE tenant_id = $1 AND agent_name = $3 AND NOT `+expired(4)+`)`,
		in.TenantID, in.UserID, in.AgentName, past, future).Scan(&ofUser, &ofAgent)
	return ofUser, ofAgent, db.Wrap("count chat runs", err)
}

// run is the row of an answer in progress.
type run struct {
	ID, TenantID, SessionKey, AgentName, WorkerID string

	Cancel  bool
	Expired bool
}

const runColumns = `run_id, tenant_id, session_key, agent_name, worker_id, cancel`

// scanRun reads runColumns and whether the lease has passed.
func scanRun(row db.Scanner) (r run, err error) {
	return r, row.Scan(&r.ID, &r.TenantID, &r.SessionKey, &r.AgentName, &r.WorkerID, &r.Cancel, &r.Expired)
}

// requestCancel marks the run of a session, for the hub that relays it. It fails with api.Conflict
// if there is none.
func requestCancel(ctx context.Context, q db.Querier, in session, now time.Time) (run, error) {
	past, future := expiry(now)
	r, err := scanRun(q.QueryRowContext(ctx, `UPDATE chat_runs SET cancel = TRUE WHERE tenant_id = $1 AND session_key = $2
		RETURNING `+runColumns+`, `+expired(3), in.TenantID, in.Key, past, future))
	if errors.Is(err, sql.ErrNoRows) {
		return r, api.Conflict.New("No answer is in progress in this session.")
	}
	return r, db.Wrap("cancel chat run", err)
}

// expiredRuns returns some runs of all tenants whose leases have passed.
func expiredRuns(ctx context.Context, q db.Querier, now time.Time) ([]run, error) {
	past, future := expiry(now)
	return db.Collect(ctx, q, "read expired chat runs", scanRun,
		`SELECT `+runColumns+`, TRUE FROM chat_runs WHERE `+expired(1)+` ORDER BY run_id LIMIT $3`, past, future, batchRows)
}

// endRun ends a run that no hub relays: its lease has passed, or it is one of the worker. The
// answer stays partial, or is cancelled if that was requested. It reports whether the run was not
// ended or renewed before.
func endRun(ctx context.Context, tx *sql.Tx, r run, workerID string, now time.Time) (ended bool, err error) {
	past, future := expiry(now)
	_, err = tx.ExecContext(ctx, `UPDATE chat_sessions SET updated_at = updated_at WHERE tenant_id = $1 AND key = $2`, r.TenantID, r.SessionKey)
	if err != nil {
		return false, db.Wrap("lock chat session", err)
	}
	n, err := db.Affected(ctx, tx, "end chat run", `DELETE FROM chat_runs WHERE tenant_id = $1 AND run_id = $2 AND (worker_id = $3 OR `+expired(4)+`)`,
		r.TenantID, r.ID, workerID, past, future)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE chat_sessions SET size = size + (SELECT COALESCE(SUM(octet_length(text) + octet_length(content)), 0)
			FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND run_id = $3 AND status = 'partial')
		WHERE tenant_id = $1 AND key = $2`, r.TenantID, r.SessionKey, r.ID)
	if err != nil || !r.Cancel {
		return true, db.Wrap("update chat session", err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE chat_messages SET status = 'cancelled' WHERE tenant_id = $1 AND session_key = $2 AND run_id = $3 AND status = 'partial'`,
		r.TenantID, r.SessionKey, r.ID)
	return true, db.Wrap("cancel chat answer", err)
}

// leased is a run of this hub.
type leased struct {
	RunID  string
	Cancel bool
}

// renewWidth is the number to whose multiples the ids of a statement are filled up, so that few
// statements are prepared.
const renewWidth = 25

// renewRuns renews the leases of runs, and returns those that the hub still has. Their rows stay
// locked until the end of the transaction.
func renewRuns(ctx context.Context, tx *sql.Tx, workerID string, runIDs []string, now time.Time) ([]leased, error) {
	args := []any{db.Micros(now.Add(leaseTime)), workerID}
	for _, id := range runIDs {
		args = append(args, id)
	}
	for (len(args)-2)%renewWidth > 0 {
		args = append(args, "")
	}
	var in strings.Builder
	for i := 3; i <= len(args); i++ {
		fmt.Fprintf(&in, ",$%d", i)
	}
	return db.Collect(ctx, tx, "renew chat runs", func(row db.Scanner) (l leased, err error) { return l, row.Scan(&l.RunID, &l.Cancel) },
		`UPDATE chat_runs SET alive_until = $1 WHERE worker_id = $2 AND run_id IN (`+in.String()[1:]+`) RETURNING run_id, cancel`, args...)
}

// savePartial stores the text of an answer in progress, whose run is locked.
func savePartial(ctx context.Context, tx *sql.Tx, in session, m message) error {
	_, err := tx.ExecContext(ctx, `UPDATE chat_messages SET text = $1, content = $2, started = TRUE
		WHERE tenant_id = $3 AND session_key = $4 AND seq = $5 AND id = $6 AND status = 'partial'`, m.Text, m.Content, in.TenantID, in.Key, m.Seq, m.ID)
	return db.Wrap("save partial answer", err)
}

// Errors of saveAnswer, with which nothing is stored.
var (
	errNotOwned = errors.New("another hub has taken over the session")
	errStored   = errors.New("the answer is stored already")
)

// saveAnswer stores an answer that has ended and releases the lease. It reports whether the session
// still exists. It fails with errNotOwned if the hub has lost the lease, and with errStored if it
// runs again after a COMMIT whose outcome was unknown.
func saveAnswer(ctx context.Context, tx *sql.Tx, f *final, workerID string, now time.Time) (bool, error) {
	in, m := f.session, f.message
	usage, err := usageText(m.Usage)
	if err != nil {
		return false, err
	}
	n, err := db.Affected(ctx, tx, "update chat session", `UPDATE chat_sessions SET updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END,
			runtime_session = $2, size = size + $5
		WHERE tenant_id = $3 AND key = $4`, db.Micros(now), f.nextSession, in.TenantID, in.Key, len(m.Text)+len(m.Content))
	if err != nil {
		return false, err
	}
	if deleted := n == 0; deleted || f.usedSession != f.nextSession {
		in.RuntimeSession = f.usedSession
		if err := insertTranscript(ctx, tx, in, now); err != nil || deleted {
			return false, err
		}
	}
	n, err = db.Affected(ctx, tx, "delete chat run", `DELETE FROM chat_runs WHERE tenant_id = $1 AND run_id = $2 AND worker_id = $3`,
		in.TenantID, m.RunID, workerID)
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, notOwned(ctx, tx, in, m)
	}
	n, err = db.Affected(ctx, tx, "save answer", `UPDATE chat_messages SET text = $1, content = $2, status = $3, model = $4, usage = $5,
			error_code = $6, error_message = $7, started = $12
		WHERE tenant_id = $8 AND session_key = $9 AND seq = $10 AND id = $11 AND status = 'partial'`,
		m.Text, m.Content, m.Status, m.Model, usage, m.Failure.Code, m.Failure.Message, in.TenantID, in.Key, m.Seq, m.ID, m.Started)
	return n == 1, err
}

// notOwned returns the reason why a hub does not have a run.
func notOwned(ctx context.Context, tx *sql.Tx, in session, m message) error {
	var status string
	err := tx.QueryRowContext(ctx, `SELECT status FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND seq = $3 AND id = $4`,
		in.TenantID, in.Key, m.Seq, m.ID).Scan(&status)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return db.Wrap("read answer", err)
	case status == m.Status && m.Status != statusPartial:
		return errStored
	}
	return errNotOwned
}

// restartAnswer makes a failed answer whose run never started one in progress again.
func restartAnswer(ctx context.Context, tx *sql.Tx, in session, m message) error {
	_, err := tx.ExecContext(ctx, `UPDATE chat_messages SET status = 'partial', error_code = '', error_message = ''
		WHERE tenant_id = $1 AND session_key = $2 AND seq = $3 AND id = $4`, in.TenantID, in.Key, m.Seq, m.ID)
	return db.Wrap("restart answer", err)
}
