package relay

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
)

// MaxExecuted is the length of the start of what is executed, in bytes, that a list and the audit
// log have.
const MaxExecuted = 4 << 10

// waitArgs is the number of the arguments of a row of chat_waits.
const waitArgs = 17

// ApproversOwner is the value of approvers with which the owner of a session approves its calls.
const ApproversOwner = "owner"

// Waiting returns who answers what waits for the owner of a session, as it is stored.
func Waiting(userID string) string { return ApproversOwner + " " + userID }

// Approvers returns who approves the calls of an agent, see [Config].
func (r *Relay) Approvers(ctx context.Context, tx *sql.Tx, tenantID, agentName string) (string, error) {
	if r.cfg.Approvers == nil {
		return ApproversOwner, nil
	}

	approvers, err := r.cfg.Approvers(ctx, tx, tenantID, agentName)
	if errors.Is(err, wire.NotFound) { // of a deleted agent
		return ApproversOwner, nil
	}

	return approvers, err
}

// insertWaits stores what waits, in a session whose row is locked, in place of what a run answered
// that no runtime accepted.
func (r *Relay) insertWaits(ctx context.Context, tx *sql.Tx, run AnswerRun, calls []Call, now time.Time) error {
	approvers, err := r.Approvers(ctx, tx, run.TenantID, run.AgentName)
	if err != nil {
		return err
	}

	var ids []string
	var args []any
	for _, c := range calls {
		by := Waiting(run.UserID)
		switch {
		case c.Kind == runvalue.InputClientTool:
			by = ""
		case c.Kind == runvalue.InputApproval && approvers != ApproversOwner:
			by = approvers
		}

		answer := ""
		if c.Answered != nil {
			answer = AnswerDigest(c.Answered.UserID, c.Answered.Answer)
		}

		ids = append(ids, c.ID)
		args = append(args, run.SessionKey, c.ID, run.TenantID, by, run.UserID, run.UserName, run.AgentName, run.SessionID, run.MessageID, run.Seq,
			c.Kind, excerpt.Head(c.ToolName, maxModel), Clean(excerpt.Head(c.Reason, maxFailure)), Clean(excerpt.Head(c.Executed, MaxExecuted)),
			Digest(c.Executed), db.Micros(now), answer)
	}

	in, former := db.In([]any{run.TenantID, run.SessionKey}, ids)
	err = db.Exec(ctx, tx, "delete what waited", `DELETE FROM chat_waits WHERE tenant_id = $1 AND session_key = $2 AND id IN `+in, former...)
	if err != nil {
		return err
	}

	return db.Exec(ctx, tx, "insert what waits", `INSERT INTO chat_waits (session_key, id, tenant_id, approvers, user_id, user_name, agent_name,
		session_id, message_id, seq, kind, tool_name, reason, executed, digest, created_at, answer)
		VALUES `+db.Rows(1, len(calls), waitArgs)+` ON CONFLICT DO NOTHING`, args...)
}

// DeleteWaits deletes what waits in a session, and what waited.
func DeleteWaits(ctx context.Context, tx *sql.Tx, tenantID, sessionKey string) error {
	return db.Exec(ctx, tx, "delete what waits", `DELETE FROM chat_waits WHERE tenant_id = $1 AND session_key = $2`, tenantID, sessionKey)
}
