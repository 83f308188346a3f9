package chat

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/db"
)

// lockSession returns the stored session with the user and the id of a pushed one, and locks its
// row.
func lockSession(ctx context.Context, tx *sql.Tx, pushed session) (session, error) {
	s, err := scanSession(tx.QueryRowContext(ctx, `UPDATE chat_sessions SET updated_at = updated_at
		WHERE tenant_id = $1 AND user_id = $2 AND id = $3 RETURNING `+sessionColumns, pushed.TenantID, pushed.UserID, pushed.ID))
	if errors.Is(err, sql.ErrNoRows) { // it was deleted in the meantime
		return s, noSession()
	}
	return s, db.Wrap("lock chat session", err)
}

// replaceSession replaces the fields of a pushed session, and deletes its messages and a run whose
// lease has passed. The session of the runtime no longer fits.
func replaceSession(ctx context.Context, tx *sql.Tx, s session) error {
	_, err := tx.ExecContext(ctx, `UPDATE chat_sessions SET user_name = $1, user_search = $2, agent_name = $3, title = $4, message_count = $5,
			last_message_at = $6, created_at = $7, updated_at = $8, size = $11, runtime_session = ''
		WHERE tenant_id = $9 AND key = $10`, s.UserName, userSearch(s.UserName, s.UserID), s.AgentName, s.Title, s.Messages,
		db.NullMicros(s.LastMessageAt), db.Micros(s.CreatedAt), db.Micros(s.UpdatedAt), s.TenantID, s.Key, s.Size)
	if err != nil {
		return db.Wrap("replace chat session", err)
	}
	if _, err = tx.ExecContext(ctx, `DELETE FROM chat_runs WHERE tenant_id = $1 AND session_key = $2`, s.TenantID, s.Key); err != nil {
		return db.Wrap("delete former chat run", err)
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM chat_messages WHERE tenant_id = $1 AND session_key = $2`, s.TenantID, s.Key)
	return db.Wrap("delete chat messages", err)
}
