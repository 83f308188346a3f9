package chat

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// storeAnswers stores what an answer waits for with some answers.
func storeAnswers(ctx context.Context, tx *sql.Tx, in session, m message, wait relay.Wait) error {
	text, err := wait.Encode()
	if err != nil {
		return err
	}

	err = db.Exec(ctx, tx, "store answers", `UPDATE chat_messages SET pending = $1 WHERE tenant_id = $2 AND session_key = $3 AND seq = $4`,
		text, in.TenantID, in.Key, m.Seq)
	if err != nil {
		return err
	}

	if err := markAnswered(ctx, tx, in, wait, ""); err != nil {
		return err
	}

	return addSize(ctx, tx, in, len(text)-len(m.Pending), true)
}

// markAnswered stores the digest of each answer, and the run that continues if none is missing.
func markAnswered(ctx context.Context, tx *sql.Tx, in session, wait relay.Wait, runID string) error {
	args := []any{runID, in.TenantID, in.Key}
	for _, c := range wait.Calls {
		if c.Answered != nil {
			args = append(args, c.ID, relay.AnswerDigest(c.Answered.UserID, c.Answered.Answer))
		}
	}

	return db.Exec(ctx, tx, "mark what is answered", `UPDATE chat_waits SET answer = given.column2, run_id = $1, reason = '', executed = ''
		FROM `+db.Table(4, len(args)/2-1, "TEXT", "TEXT")+` AS given WHERE tenant_id = $2 AND session_key = $3 AND id = given.column1`, args...)
}

// addSize adds to the size of a session, and sets whether its last answer waits.
func addSize(ctx context.Context, tx *sql.Tx, in session, bytes int, waiting bool) error {
	return db.Exec(ctx, tx, "update chat session", `UPDATE chat_sessions SET size = size + $1, waiting = $2 WHERE tenant_id = $3 AND key = $4`,
		bytes, waiting, in.TenantID, in.Key)
}

// continueAnswer makes an answer one in progress with the run of the id. What it waited for remains
// until the run has ended, with the answers. The size of the session is without it until then.
func continueAnswer(ctx context.Context, tx *sql.Tx, in session, m message, wait relay.Wait, runID, content string, now time.Time) error {
	text, err := wait.Encode()
	if err != nil {
		return err
	}

	err = db.Exec(ctx, tx, "continue answer", `UPDATE chat_messages SET status = 'partial', run_id = $1, pending = $2, content = $3, started = FALSE,
			error_code = '', error_message = ''
		WHERE tenant_id = $4 AND session_key = $5 AND seq = $6`, runID, text, content, in.TenantID, in.Key, m.Seq)
	if err != nil {
		return err
	}

	if err := markAnswered(ctx, tx, in, wait, runID); err != nil {
		return err
	}

	size := len(m.Text) + len(m.Content)
	if m.Status == relay.StatusCompleted {
		size += len(m.Pending)
	}

	return db.Exec(ctx, tx, "update chat session", `UPDATE chat_sessions SET size = size - $1, waiting = FALSE, last_message_at = $2,
			updated_at = CASE WHEN updated_at < $2 THEN $2 ELSE updated_at END
		WHERE tenant_id = $3 AND key = $4`, size, db.Micros(now), in.TenantID, in.Key)
}

// dropWait ends an answer whose session the runtime does not have.
func dropWait(ctx context.Context, tx *sql.Tx, in session, m message) error {
	err := db.Exec(ctx, tx, "drop what waits", `UPDATE chat_messages SET status = 'failed', pending = '', error_code = $1, error_message = $2
		WHERE tenant_id = $3 AND session_key = $4 AND seq = $5`, string(errLost.Code), errLost.Message, in.TenantID, in.Key, m.Seq)
	if err != nil {
		return err
	}

	if err := dropWaits(ctx, tx, in); err != nil {
		return err
	}

	return addSize(ctx, tx, in, -len(m.Pending), false)
}

// dropWaits deletes what waits in a session.
func dropWaits(ctx context.Context, tx *sql.Tx, in session) error {
	return db.Exec(ctx, tx, "delete what waits", `DELETE FROM chat_waits WHERE tenant_id = $1 AND session_key = $2 AND run_id = ''`, in.TenantID, in.Key)
}

// rejectWaits ends the answer with the seq if it waits, because its user has sent a message: the
// runtime rejects what waits. It returns that with the rejections.
func rejectWaits(ctx context.Context, tx *sql.Tx, in session, seq int64, by relay.Answered) (relay.Wait, error) {
	last, err := messagesOf(ctx, tx, in, seq-1, seq)
	if err != nil || len(last) == 0 {
		return relay.Wait{}, err
	}

	m := last[0]
	wait, err := m.wait()
	if err != nil || len(wait.Calls) == 0 {
		return relay.Wait{}, addSize(ctx, tx, in, 0, false) // an earlier version has sent messages
	}

	wait = wait.Reject(by)
	content := wait.Content(m.Text, m.Content)
	err = db.Exec(ctx, tx, "reject what waits", `UPDATE chat_messages SET content = $1, pending = '' WHERE tenant_id = $2 AND session_key = $3 AND seq = $4`,
		content, in.TenantID, in.Key, seq)
	if err != nil {
		return relay.Wait{}, err
	}

	if err := dropWaits(ctx, tx, in); err != nil {
		return relay.Wait{}, err
	}

	return wait, addSize(ctx, tx, in, len(content)-len(m.Content)-len(m.Pending), false)
}

// ChangeApprovers changes who approves the calls of an agent that wait, in the transaction of the
// agent. It does not authorize.
func (s *Service) ChangeApprovers(ctx context.Context, tx *store.Tx, agentName, approvers string) error {
	return db.Exec(ctx, tx, "change approvers", `UPDATE chat_waits SET approvers = CASE $1 WHEN '`+relay.ApproversOwner+`' THEN $1 || ' ' || user_id ELSE $1 END
		WHERE tenant_id = $2 AND agent_name = $3 AND kind = 'approval' AND answer = ''`, approvers, tx.Caller.TenantID, agentName)
}

// DropWaits drops what waits for the calls of a deleted agent, in its transaction. It does not
// authorize.
func (s *Service) DropWaits(ctx context.Context, tx *store.Tx, agentName string) error {
	return db.Exec(ctx, tx, "drop what waits", `DELETE FROM chat_waits WHERE tenant_id = $1 AND agent_name = $2`, tx.Caller.TenantID, agentName)
}

// waitRow is a row of chat_waits.
type waitRow struct {
	wire.Approval

	key   string
	seq   int64
	runID string // that continues with the answer
}

// selectWaits selects rows as scanWait reads them.
const selectWaits = `SELECT session_key, seq, id, kind, agent_name, session_id, message_id, user_id, user_name, tool_name, reason, executed, digest,
	approvers, created_at, run_id FROM chat_waits WHERE tenant_id = $1 `

func scanWait(row db.Scanner) (waitRow, error) {
	var w waitRow
	var created int64
	err := row.Scan(&w.key, &w.seq, &w.ID, &w.Kind, &w.AgentName, &w.SessionID, &w.MessageID, &w.UserID, &w.UserName, &w.ToolName, &w.Reason, &w.Executed,
		&w.Digest, &w.Approvers, &created, &w.runID)
	if w.Approvers == relay.Waiting(w.UserID) {
		w.Approvers = relay.ApproversOwner
	}

	w.Truncated = w.Digest != relay.Digest(w.Executed)
	w.CreatedAt = wire.Time{Time: db.Time(created)}
	return w, err
}

// waitsFor returns a page of what waits for a caller, the oldest first, and the number of all.
func waitsFor(ctx context.Context, q db.Querier, caller api.Caller, page api.Page) ([]waitRow, int, error) {
	own := relay.Waiting(caller.UserID)
	args := []any{caller.TenantID, own, own, own, caller.UserID}
	if rbac.AdminWrite.Allows(caller.RoleNow) {
		args[2] = string(rbac.Maintainer)
	}

	if rbac.AdminOnly.Allows(caller.RoleNow) {
		args[3] = string(rbac.Admin)
	}

	part := db.Page{Order: `id`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list what waits", scanWait, part, selectWaits+`AND answer = '' AND approvers IN ($2, $3, $4) AND (approvers = $2 OR user_id <> $5)`, args...)
}

var errNothing = wire.NotFound.New("Nothing waits with this id: it was answered, or a message came first.")

// findWait returns what waits for a caller or for a role, or was answered with the digest. It fails
// with wire.NotFound without it.
func findWait(ctx context.Context, q db.Querier, caller api.Caller, id, answer string) (waitRow, error) {
	w, err := scanWait(q.QueryRowContext(ctx, selectWaits+`AND answer IN ('', $2) AND approvers IN ($3, $4, $5) AND id = $6`,
		caller.TenantID, answer, relay.Waiting(caller.UserID), string(rbac.Maintainer), string(rbac.Admin), id))
	if err == nil && w.UserID != caller.UserID && !groups[w.Approvers].Allows(caller.RoleNow) {
		return waitRow{}, errNothing
	}

	return w, db.WrapOne("find what waits", err, errNothing)
}

// findAnswered returns the answer that a run continues with answers of a user, or nil unless these
// were given before.
func findAnswered(ctx context.Context, q db.Querier, s session, userID string, answers []runtimewire.Answer) (*earlier, error) {
	args := []any{s.TenantID, s.Key, len(answers)}
	for _, answer := range answers {
		args = append(args, answer.ID, relay.AnswerDigest(userID, answer))
	}

	e := &earlier{session: s}
	err := q.QueryRowContext(ctx, `SELECT m.seq - 1, w.run_id, m.started OR m.run_id <> w.run_id
		FROM `+db.Table(4, len(answers), "TEXT", "TEXT")+` AS given
			JOIN chat_waits AS w ON w.tenant_id = $1 AND w.session_key = $2 AND w.id = given.column1 AND w.answer = given.column2 AND w.run_id <> ''
			JOIN chat_messages AS m ON m.tenant_id = w.tenant_id AND m.session_key = w.session_key AND m.seq = w.seq
		GROUP BY m.seq, w.run_id, m.started, m.run_id HAVING COUNT(*) = $3`, args...).Scan(&e.seq, &e.runID, &e.started)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}

	return e, db.Wrap("find sent answers", err)
}

// lastRun returns the run of the last answer of a session if it waits, or "".
func lastRun(ctx context.Context, q db.Querier, s session) (string, error) {
	run, err := db.Value[string](ctx, q, "read last run", `SELECT run_id FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND seq = $3`,
		s.TenantID, s.Key, s.Messages)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}

	return run, err
}
