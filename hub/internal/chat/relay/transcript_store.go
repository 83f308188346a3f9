package relay

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/internal/db"
)

const (
	// keptTranscript is the time after which a runtime has deleted a transcript by itself: it
	// deletes those that were not used for 30 days.
	keptTranscript = 31 * 24 * time.Hour

	// retryTranscript is the time between two attempts to delete a transcript.
	retryTranscript = 5 * time.Minute

	dueTranscripts = 100 // of one sweep
)

// Transcript is a session of the runtime of an agent.
type Transcript struct{ TenantID, AgentName, RuntimeSession string }

// InsertTranscript records that a transcript has to be deleted in the runtime: that of a deleted
// chat, or one that no chat continues.
func InsertTranscript(ctx context.Context, q db.Querier, t Transcript, now time.Time) error {
	if t.RuntimeSession == "" {
		return nil
	}

	return db.Exec(ctx, q, "insert deleted transcript", `INSERT INTO chat_transcripts (tenant_id, agent_name, runtime_session, due_at, keep_until)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant_id, agent_name, runtime_session) DO UPDATE SET due_at = excluded.due_at`,
		t.TenantID, t.AgentName, t.RuntimeSession, db.Micros(now), db.Micros(now.Add(keptTranscript)))
}

// claimTranscripts returns transcripts that are due. Other hubs do not get them before the next
// attempt. Transcripts that runtimes have deleted by their age are removed.
func claimTranscripts(ctx context.Context, q db.Querier, now time.Time) ([]Transcript, error) {
	err := db.Exec(ctx, q, "delete old transcripts", `DELETE FROM chat_transcripts WHERE keep_until < $1`, db.Micros(now))
	if err != nil {
		return nil, err
	}

	return db.Collect(ctx, q, "claim deleted transcripts", func(row db.Scanner) (t Transcript, err error) {
		return t, row.Scan(&t.TenantID, &t.AgentName, &t.RuntimeSession)
	}, `UPDATE chat_transcripts SET due_at = $1 WHERE due_at <= $2 AND (tenant_id, agent_name, runtime_session) IN
		(SELECT tenant_id, agent_name, runtime_session FROM chat_transcripts WHERE due_at <= $2 ORDER BY due_at LIMIT $3)
		RETURNING tenant_id, agent_name, runtime_session`, db.Micros(now.Add(retryTranscript)), db.Micros(now), dueTranscripts)
}

// deleteTranscript forgets a transcript that the runtime no longer has.
func deleteTranscript(ctx context.Context, q db.Querier, t Transcript) error {
	return db.Exec(ctx, q, "delete transcript", `DELETE FROM chat_transcripts WHERE tenant_id = $1 AND agent_name = $2 AND runtime_session = $3`,
		t.TenantID, t.AgentName, t.RuntimeSession)
}
