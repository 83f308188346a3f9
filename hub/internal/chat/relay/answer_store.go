package relay

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/db"
)

// countPartial adds the answer of a run that has ended without it to the size of the session.
func countPartial(ctx context.Context, tx *sql.Tx, tenantID, sessionKey, runID string) error {
	return db.Exec(ctx, tx, "update chat session", `UPDATE chat_sessions SET size = size + (SELECT COALESCE(SUM(octet_length(text) + octet_length(content)), 0)
			FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND run_id = $3 AND status = 'partial')
		WHERE tenant_id = $1 AND key = $2`, tenantID, sessionKey, runID)
}

// savePartials stores the text of answers in progress whose runs the hub has.
func savePartials(ctx context.Context, tx *sql.Tx, all []partial, hubID string) error {
	args := []any{hubID}
	for _, p := range all {
		args = append(args, p.run.TenantID, p.run.SessionKey, p.run.Seq, p.run.MessageID, p.run.ID, p.content.text, p.content.blocks)
	}

	return db.Exec(ctx, tx, "save partial answers", `UPDATE chat_messages SET text = grown.column6, content = grown.column7, started = TRUE
		FROM `+db.Table(2, len(all), "TEXT", "TEXT", "BIGINT", "TEXT", "TEXT", "TEXT", "TEXT")+` AS grown
		WHERE tenant_id = grown.column1 AND session_key = grown.column2 AND seq = grown.column3 AND id = grown.column4 AND status = 'partial'
			AND EXISTS (SELECT 1 FROM chat_runs AS r WHERE r.run_id = grown.column5 AND r.hub_id = $1)`, args...)
}

// errNotOwned is the error of an answer whose hub no longer has the run, or has stored its end by a
// COMMIT whose outcome was unknown.
var errNotOwned = errors.New("the hub does not have the run of the session")

// saveAnswers stores answers that have ended with what they wait for, releases their sessions, and
// sets saved to whether the end is stored and the session still exists. With errNotOwned, which is
// of one of them, the transaction must not commit.
func saveAnswers(ctx context.Context, tx *sql.Tx, all []*Answer, hubID string, now time.Time) error {
	sessions, runs := []any{db.Micros(now)}, []any{hubID}
	for _, a := range all {
		var err error
		if a.wait, a.pending, err = a.waits(); err != nil {
			return err
		}

		size := a.final.size() + len(a.pending)
		sessions = append(sessions, a.run.TenantID, a.run.SessionKey, a.nextSession(), size, a.pending != "", string(a.conversation()))
		runs = append(runs, a.run.ID)
	}

	exist, err := db.Values[string](ctx, tx, "update chat sessions", `UPDATE chat_sessions
		SET updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END, runtime_session = ended.column3, size = size + ended.column4,
			waiting = ended.column5, conversation = ended.column6
		FROM `+db.Table(2, len(all), "TEXT", "TEXT", "TEXT", "BIGINT", "BOOLEAN", "TEXT")+` AS ended
		WHERE tenant_id = ended.column1 AND key = ended.column2 RETURNING key`, sessions...)
	if err != nil {
		return err
	}

	// The index of hub_id has all runs of the hub: an expression has none.
	owned, err := db.Values[string](ctx, tx, "delete chat runs", `DELETE FROM chat_runs
		WHERE run_id IN `+db.Rows(2, 1, len(all))+` AND hub_id || '' = $1 RETURNING run_id`, runs...)
	if err != nil {
		return err
	}

	var stored []any
	kept := 0
	for _, a := range all {
		r, exists := a.run, slices.Contains(exist, a.run.SessionKey)
		if !exists || a.text.runtimeSession != a.nextSession() {
			unused := Transcript{TenantID: r.TenantID, AgentName: r.AgentName, RuntimeSession: a.text.runtimeSession}
			if err := InsertTranscript(ctx, tx, unused, now); err != nil {
				return err
			}
		}

		a.saved = false
		switch {
		case !exists: // its run counts in any case
			continue
		case !slices.Contains(owned, r.ID):
			a.saved, err = db.Value[bool](ctx, tx, "read answer", `SELECT EXISTS (SELECT 1 FROM chat_messages
				WHERE tenant_id = $1 AND session_key = $2 AND seq = $3 AND id = $4 AND status = $5)`, r.TenantID, r.SessionKey, r.Seq, r.MessageID, a.end.stored())
			return cmp.Or(err, errNotOwned)
		}

		usage, err := json.Marshal(a.total())
		if err != nil {
			return fmt.Errorf("encode usage: %w", err)
		}

		kept++
		stored = append(stored, r.TenantID, r.SessionKey, r.Seq, r.MessageID, a.final.text, a.final.blocks, a.end.stored(), a.text.model, string(usage),
			a.end.Failure.Code, a.end.Failure.Message, a.started || a.resumed != nil, a.pending)
	}

	if kept == 0 {
		return nil
	}

	saved, err := db.Values[string](ctx, tx, "save answers", `UPDATE chat_messages SET text = ended.column5, content = ended.column6, status = ended.column7,
			model = ended.column8, usage = ended.column9, error_code = ended.column10, error_message = ended.column11, started = ended.column12,
			pending = ended.column13
		FROM `+db.Table(1, kept, "TEXT", "TEXT", "BIGINT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "BOOLEAN", "TEXT")+` AS ended
		WHERE tenant_id = ended.column1 AND session_key = ended.column2 AND seq = ended.column3 AND id = ended.column4 AND status = 'partial'
		RETURNING id`, stored...)
	for _, a := range all {
		a.saved = slices.Contains(saved, a.run.MessageID)
		if err == nil && a.saved && a.pending != "" {
			err = a.relay.insertWaits(ctx, tx, a.run, a.wait.Calls, now)
		}

		if err == nil && a.saved && a.run.Ephemeral && a.pending == "" {
			err = deleteEphemeral(ctx, tx, now, "tenant_id = $1 AND key = $2", a.run.TenantID, a.run.SessionKey)
		}
	}

	return err
}

// deleteEphemeral deletes those of the ephemeral sessions with a condition that have no run, and
// has the runtimes delete their transcripts.
func deleteEphemeral(ctx context.Context, tx *sql.Tx, now time.Time, condition string, args ...any) error {
	deleted, err := db.Collect(ctx, tx, "delete ephemeral chat sessions", func(row db.Scanner) (t Transcript, err error) {
		return t, row.Scan(&t.TenantID, &t.AgentName, &t.RuntimeSession)
	}, `DELETE FROM chat_sessions WHERE ephemeral AND `+condition+` AND NOT EXISTS (SELECT 1 FROM chat_runs AS r WHERE r.session_key = chat_sessions.key)
		RETURNING tenant_id, agent_name, runtime_session`, args...)
	for i := 0; i < len(deleted) && err == nil; i++ {
		err = InsertTranscript(ctx, tx, deleted[i], now)
	}

	return err
}

// saveUsage stores the tokens of an answer whose end is stored.
func saveUsage(ctx context.Context, tx *sql.Tx, a *Answer) error {
	text, err := json.Marshal(a.total())
	if err != nil {
		return fmt.Errorf("encode usage: %w", err)
	}

	return db.Exec(ctx, tx, "save usage of answer", `UPDATE chat_messages SET usage = $1
		WHERE tenant_id = $2 AND session_key = $3 AND seq = $4 AND id = $5`, string(text), a.run.TenantID, a.run.SessionKey, a.run.Seq, a.run.MessageID)
}

// saveBudgets stores the warnings of an answer whose end is stored.
func saveBudgets(ctx context.Context, tx *sql.Tx, a *Answer) error {
	text, err := json.Marshal(a.budgets)
	if err != nil {
		return fmt.Errorf("encode budgets: %w", err)
	}

	return db.Exec(ctx, tx, "save budgets", `UPDATE chat_messages SET budgets = $1
		WHERE tenant_id = $2 AND session_key = $3 AND seq = $4 AND id = $5`, string(text), a.run.TenantID, a.run.SessionKey, a.run.Seq, a.run.MessageID)
}

// forgetRuntimeSession removes the session of the runtime, which the runtime no longer has, so that
// another replica of the runtime that still has it does not continue it without the next messages.
func forgetRuntimeSession(ctx context.Context, q db.Querier, r AnswerRun) error {
	return db.Exec(ctx, q, "forget session of runtime", `UPDATE chat_sessions SET runtime_session = ''
		WHERE tenant_id = $1 AND key = $2 AND runtime_session = $3`, r.TenantID, r.SessionKey, r.RuntimeSession)
}
