package chat

import (
	"context"
	"fmt"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// Limits of what a user stores in all sessions, so that one user cannot fill the disk. Concurrent
// requests may exceed them by what each of them stores.
const (
	maxSessions     = 10_000
	maxBytes        = 1 << 30 // of messages
	messageOverhead = 512     // bytes of a message besides its text and content
)

// quota is what a user has stored in all sessions.
type quota struct {
	sessions int
	bytes    int64
}

// check fails with api.Conflict if the user has stored more than the limits.
func (q quota) check() error {
	switch {
	case q.sessions > maxSessions:
		return api.Conflict.New(fmt.Sprintf("A user may have at most %d chat sessions: delete some of them first.", maxSessions))
	case q.bytes > maxBytes:
		return api.Conflict.New(fmt.Sprintf("The chats of a user may have at most %d MiB: delete some of them first.", maxBytes>>20))
	}
	return nil
}

// quotaOf returns what a user has stored.
func quotaOf(ctx context.Context, q db.Querier, tenantID, userID string) (sum quota, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(size), 0) FROM chat_sessions WHERE tenant_id = $1 AND user_id = $2`, tenantID, userID).
		Scan(&sum.sessions, &sum.bytes)
	return sum, db.Wrap("count chats of user", err)
}

// sizeOf returns the number of bytes that messages count for.
func sizeOf(messages ...message) (n int64) {
	for _, m := range messages {
		n += messageOverhead + int64(len(m.Text)+len(m.Content))
	}
	return n
}
