package relay

import (
	"context"
	"database/sql"
	"encoding/json"
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

// insertRun takes the lease of a session whose row is locked. It returns the id of a former run
// whose lease has passed, or "". It fails with api.Conflict while another answer is in progress.
func insertRun(ctx context.Context, tx *sql.Tx, r Run, workerID string, now time.Time) (former string, err error) {
	past, future := expiry(now)
	for range 2 {
		n, err := db.Affected(ctx, tx, "insert chat run", `INSERT INTO chat_runs (run_id, tenant_id, session_key, user_id, agent_name, worker_id, alive_until)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (session_key) DO NOTHING`,
			r.ID, r.TenantID, r.SessionKey, r.UserID, r.AgentName, workerID, db.Micros(now.Add(leaseTime)))
		if err != nil || n == 1 {
			return former, err
		}
		err = tx.QueryRowContext(ctx, `DELETE FROM chat_runs WHERE tenant_id = $1 AND session_key = $2 AND `+expired(3)+` RETURNING run_id`,
			r.TenantID, r.SessionKey, past, future).Scan(&former)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return "", db.Wrap("delete former chat run", err)
		}
	}
	return "", api.Conflict.New("An answer is in progress in this session: wait for its end, or cancel it.")
}

// InProgress reports whether an answer is in progress in a session whose row is locked.
func InProgress(ctx context.Context, tx *sql.Tx, tenantID, sessionKey string, now time.Time) (bool, error) {
	past, future := expiry(now)
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM chat_runs WHERE tenant_id = $1 AND session_key = $2 AND NOT `+expired(3),
		tenantID, sessionKey, past, future).Scan(&n)
	return n > 0, db.Wrap("read chat run", err)
}

// countRuns returns the number of answers in progress of the user and of the agent of a session, in
// all hubs. Transactions of one user wait for each other.
func countRuns(ctx context.Context, tx *sql.Tx, engine db.Engine, r Run, now time.Time) (ofUser, ofAgent int, err error) {
	if engine == db.PostgreSQL {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, "chat_runs "+r.TenantID+" "+r.UserID); err != nil {
			return 0, 0, db.Wrap("lock chat runs of user", err)
		}
	}
	past, future := expiry(now)
	err = tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM chat_runs WHERE tenant_id = $1 AND user_id = $2 AND NOT `+expired(4)+`),
		(SELECT COUNT(*) FROM chat_runs WHERE tenant_id = $1 AND agent_name = $3 AND NOT `+expired(4)+`)`,
		r.TenantID, r.UserID, r.AgentName, past, future).Scan(&ofUser, &ofAgent)
	return ofUser, ofAgent, db.Wrap("count chat runs", err)
}

// lease is the row of an answer in progress.
type lease struct {
	RunID, TenantID, SessionKey, AgentName, WorkerID string

	Cancel  bool
	Expired bool
}

const leaseColumns = `run_id, tenant_id, session_key, agent_name, worker_id, cancel`

// scanLease reads leaseColumns and whether the lease has passed.
func scanLease(row db.Scanner) (r lease, err error) {
	return r, row.Scan(&r.RunID, &r.TenantID, &r.SessionKey, &r.AgentName, &r.WorkerID, &r.Cancel, &r.Expired)
}

// requestCancel marks the run of a session, for the hub that relays it. It fails with api.Conflict
// if there is none.
func requestCancel(ctx context.Context, q db.Querier, tenantID, sessionKey string, now time.Time) (lease, error) {
	past, future := expiry(now)
	r, err := scanLease(q.QueryRowContext(ctx, `UPDATE chat_runs SET cancel = TRUE WHERE tenant_id = $1 AND session_key = $2
		RETURNING `+leaseColumns+`, `+expired(3), tenantID, sessionKey, past, future))
	if errors.Is(err, sql.ErrNoRows) {
		return r, api.Conflict.New("No answer is in progress in this session.")
	}
	return r, db.Wrap("cancel chat run", err)
}

// expiredRuns returns some runs of all tenants whose leases have passed.
func expiredRuns(ctx context.Context, q db.Querier, now time.Time) ([]lease, error) {
	past, future := expiry(now)
	return db.Collect(ctx, q, "read expired chat runs", scanLease,
		`SELECT `+leaseColumns+`, TRUE FROM chat_runs WHERE `+expired(1)+` ORDER BY run_id LIMIT $3`, past, future, batchRows)
}

// endRun ends a run that no hub relays: its lease has passed, or it is one of the worker. The
// answer stays partial, or is cancelled if that was requested. It reports whether the run was not
// ended or renewed before.
func endRun(ctx context.Context, tx *sql.Tx, r lease, workerID string, now time.Time) (ended bool, err error) {
	past, future := expiry(now)
	_, err = tx.ExecContext(ctx, `UPDATE chat_sessions SET updated_at = updated_at WHERE tenant_id = $1 AND key = $2`, r.TenantID, r.SessionKey)
	if err != nil {
		return false, db.Wrap("lock chat session", err)
	}
	n, err := db.Affected(ctx, tx, "end chat run", `DELETE FROM chat_runs WHERE tenant_id = $1 AND run_id = $2 AND (worker_id = $3 OR `+expired(4)+`)`,
		r.TenantID, r.RunID, workerID, past, future)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE chat_sessions SET size = size + (SELECT COALESCE(SUM(octet_length(text) + octet_length(content)), 0)
			FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND run_id = $3 AND status = 'partial')
		WHERE tenant_id = $1 AND key = $2`, r.TenantID, r.SessionKey, r.RunID)
	if err != nil || !r.Cancel {
		return true, db.Wrap("update chat session", err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE chat_messages SET status = 'cancelled' WHERE tenant_id = $1 AND session_key = $2 AND run_id = $3 AND status = 'partial'`,
		r.TenantID, r.SessionKey, r.RunID)
	return true, db.Wrap("cancel chat answer", err)
}

// renewWidth is the number to whose multiples the ids of a statement are filled up, so that few
// statements are prepared.
const renewWidth = 25

// renewRuns renews the leases of runs, and returns those that the hub still has, and for each of
// them whether it is to be cancelled. Their rows stay locked until the end of the transaction.
func renewRuns(ctx context.Context, tx *sql.Tx, workerID string, runIDs []string, now time.Time) (map[string]bool, error) {
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
	leases, err := db.Collect(ctx, tx, "renew chat runs", func(row db.Scanner) (l lease, err error) { return l, row.Scan(&l.RunID, &l.Cancel) },
		`UPDATE chat_runs SET alive_until = $1 WHERE worker_id = $2 AND run_id IN (`+in.String()[1:]+`) RETURNING run_id, cancel`, args...)
	owned := make(map[string]bool, len(leases))
	for _, l := range leases {
		owned[l.RunID] = l.Cancel
	}
	return owned, err
}

// savePartial stores the text of an answer in progress, whose run is locked.
func savePartial(ctx context.Context, tx *sql.Tx, p partial) error {
	_, err := tx.ExecContext(ctx, `UPDATE chat_messages SET text = $1, content = $2, started = TRUE
		WHERE tenant_id = $3 AND session_key = $4 AND seq = $5 AND id = $6 AND status = 'partial'`,
		p.text, p.content, p.run.TenantID, p.run.SessionKey, p.run.Seq, p.run.MessageID)
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
func saveAnswer(ctx context.Context, tx *sql.Tx, e *ended, workerID string, now time.Time) (bool, error) {
	usage, err := json.Marshal(e.usage)
	if err != nil {
		return false, fmt.Errorf("encode usage: %w", err)
	}
	r := e.run
	n, err := db.Affected(ctx, tx, "update chat session", `UPDATE chat_sessions SET updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END,
			runtime_session = $2, size = size + $5
		WHERE tenant_id = $3 AND key = $4`, db.Micros(now), e.nextSession, r.TenantID, r.SessionKey, len(e.text)+len(e.content))
	if err != nil {
		return false, err
	}
	if deleted := n == 0; deleted || e.usedSession != e.nextSession {
		if err := InsertTranscript(ctx, tx, Transcript{TenantID: r.TenantID, AgentName: r.AgentName, RuntimeSession: e.usedSession}, now); err != nil || deleted {
			return false, err
		}
	}
	n, err = db.Affected(ctx, tx, "delete chat run", `DELETE FROM chat_runs WHERE tenant_id = $1 AND run_id = $2 AND worker_id = $3`,
		r.TenantID, r.ID, workerID)
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, notOwned(ctx, tx, e)
	}
	n, err = db.Affected(ctx, tx, "save answer", `UPDATE chat_messages SET text = $1, content = $2, status = $3, model = $4, usage = $5,
			error_code = $6, error_message = $7, started = $12
		WHERE tenant_id = $8 AND session_key = $9 AND seq = $10 AND id = $11 AND status = 'partial'`,
		e.text, e.content, e.end.Status, e.model, string(usage), e.end.Failure.Code, e.end.Failure.Message,
		r.TenantID, r.SessionKey, r.Seq, r.MessageID, e.started)
	return n == 1, err
}

// notOwned returns the reason why a hub does not have a run.
func notOwned(ctx context.Context, tx *sql.Tx, e *ended) error {
	var status string
	err := tx.QueryRowContext(ctx, `SELECT status FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND seq = $3 AND id = $4`,
		e.run.TenantID, e.run.SessionKey, e.run.Seq, e.run.MessageID).Scan(&status)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return db.Wrap("read answer", err)
	case status == e.end.Status:
		return errStored
	}
	return errNotOwned
}

// forgetRuntimeSession removes the session of the runtime, which the runtime no longer has, so that
// another replica of the runtime that still has it does not continue it without the next messages.
func forgetRuntimeSession(ctx context.Context, q db.Querier, r Run) error {
	_, err := q.ExecContext(ctx, `UPDATE chat_sessions SET runtime_session = '' WHERE tenant_id = $1 AND key = $2 AND runtime_session = $3`,
		r.TenantID, r.SessionKey, r.RuntimeSession)
	return db.Wrap("forget session of runtime", err)
}
