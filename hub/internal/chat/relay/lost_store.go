package relay

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// endFormer ends the run of a session that no hub has, and returns it as it counts. Without
// one, the result has no id.
func (r *Relay) endFormer(ctx context.Context, tx *sql.Tx, in AnswerRun) (usage.CountedRun, error) {
	lost := in.usage()
	err := tx.QueryRowContext(ctx, `DELETE FROM chat_runs WHERE tenant_id = $1 AND session_key = $2 AND `+store.Free+` RETURNING run_id`,
		in.TenantID, in.SessionKey).Scan(&lost.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return usage.CountedRun{}, nil
	}

	if err != nil {
		return usage.CountedRun{}, db.Wrap("delete former chat run", err)
	}

	if err := countPartial(ctx, tx, in.TenantID, in.SessionKey, lost.ID); err != nil {
		return usage.CountedRun{}, err
	}

	return r.countLost(ctx, tx, lost, in.SessionKey)
}

// EndFormer ends the run of a session that a push replaces, if there is one that no hub has.
func (r *Relay) EndFormer(ctx context.Context, tx *sql.Tx, in AnswerRun) error {
	_, err := r.endFormer(ctx, tx, in)
	return err
}

// countLost counts a run whose hub was killed, and returns it as it counts. Its answer has the same
// tokens, and those of the run that it continued.
func (r *Relay) countLost(ctx context.Context, tx *sql.Tx, lost usage.CountedRun, sessionKey string) (usage.CountedRun, error) {
	lost.Unreported = true
	if r.cfg.Usage == nil {
		return lost, nil
	}

	counted, _, err := r.cfg.Usage.Record(ctx, tx, lost)
	if err != nil {
		return lost, err
	}

	const answer = `tenant_id = $1 AND session_key = $2 AND run_id = $3 AND status = 'partial'`
	former, err := db.Value[string](ctx, tx, "read usage of answer", `SELECT usage FROM chat_messages WHERE `+answer, lost.TenantID, sessionKey, lost.ID)
	if errors.Is(err, sql.ErrNoRows) { // it is stored, or deleted
		return counted[0], nil
	}

	if err != nil {
		return lost, err
	}

	total := counted[0].Tokens
	if former != "" {
		var used wire.Usage
		if err := json.Unmarshal([]byte(former), &used); err != nil {
			return lost, fmt.Errorf("decode usage: %w", err)
		}

		total = used.Add(total)
	}

	text, err := json.Marshal(total)
	if err != nil {
		return lost, fmt.Errorf("encode usage: %w", err)
	}

	return counted[0], db.Exec(ctx, tx, "save usage of answer", `UPDATE chat_messages SET usage = $4 WHERE `+answer,
		lost.TenantID, sessionKey, lost.ID, string(text))
}

// endLease ends a run that no hub has, or that is one of the hub with the id. The answer stays
// partial, or is cancelled if that was requested. It returns the run as it counts, without an id if
// it was ended before.
func (r *Relay) endLease(ctx context.Context, tx *sql.Tx, l Lease, hubID string) (usage.CountedRun, error) {
	lost := usage.CountedRun{ID: l.RunID, TenantID: l.TenantID, AgentName: l.AgentName, UserID: l.UserID}
	err := tx.QueryRowContext(ctx, `UPDATE chat_sessions SET updated_at = updated_at WHERE tenant_id = $1 AND key = $2 RETURNING user_name`,
		l.TenantID, l.SessionKey).Scan(&lost.UserName)
	if err != nil && !errors.Is(err, sql.ErrNoRows) { // of a deleted chat
		return usage.CountedRun{}, db.Wrap("lock chat session", err)
	}

	n, err := db.Affected(ctx, tx, "end chat run", `DELETE FROM chat_runs WHERE tenant_id = $1 AND run_id = $2 AND (hub_id = $3 OR `+store.Free+`)`,
		l.TenantID, l.RunID, hubID)
	if err != nil || n == 0 {
		return usage.CountedRun{}, err
	}

	if err := countPartial(ctx, tx, l.TenantID, l.SessionKey, l.RunID); err != nil {
		return usage.CountedRun{}, err
	}

	counted, err := r.countLost(ctx, tx, lost, l.SessionKey)
	if err != nil || !l.Cancel {
		return counted, err
	}

	return counted, db.Exec(ctx, tx, "cancel chat answer", `UPDATE chat_messages SET status = 'cancelled'
		WHERE tenant_id = $1 AND session_key = $2 AND run_id = $3 AND status = 'partial'`, l.TenantID, l.SessionKey, l.RunID)
}

// saveLate stores an answer whose run has completed while the hub was not in the table of hubs:
// another hub has ended it, and no later one has its run. It reports whether the answer is stored.
func saveLate(ctx context.Context, tx *sql.Tx, a *Answer) (bool, error) {
	if a.saved || a.text.end == nil || a.end.Status != StatusCompleted {
		return a.saved, nil
	}

	tokens, err := json.Marshal(a.total())
	if err != nil {
		return false, fmt.Errorf("encode usage: %w", err)
	}

	r := a.run
	err = db.Exec(ctx, tx, "lock chat session", `UPDATE chat_sessions SET updated_at = updated_at WHERE tenant_id = $1 AND key = $2`, r.TenantID, r.SessionKey)
	if err != nil {
		return false, err
	}

	const partial = `tenant_id = $1 AND session_key = $2 AND seq = $3 AND id = $4 AND run_id = $5 AND status = 'partial'`
	err = db.Exec(ctx, tx, "update chat session", `UPDATE chat_sessions SET size = size + (SELECT COALESCE(SUM($6 - octet_length(text) - octet_length(content)), 0)
		FROM chat_messages WHERE `+partial+` AND NOT EXISTS (SELECT 1 FROM chat_runs WHERE run_id = $5)) WHERE tenant_id = $1 AND key = $2`,
		r.TenantID, r.SessionKey, r.Seq, r.MessageID, r.ID, a.final.size())
	if err != nil {
		return false, err
	}

	n, err := db.Affected(ctx, tx, "save late answer", `UPDATE chat_messages SET text = $6, content = $7, status = $8, model = $9, usage = $10, started = TRUE, pending = ''
		WHERE `+partial+` AND NOT EXISTS (SELECT 1 FROM chat_runs WHERE run_id = $5)`,
		r.TenantID, r.SessionKey, r.Seq, r.MessageID, r.ID, a.final.text, a.final.blocks, a.end.Status, a.text.model, string(tokens))
	return n == 1, err
}
