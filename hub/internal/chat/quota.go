package chat

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
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

// check fails with wire.Conflict if the user has stored more than the limits.
func (q quota) check() error {
	switch {
	case q.sessions > maxSessions:
		return wire.Conflict.New(fmt.Sprintf("A user may have at most %d chat sessions: delete some of them first.", maxSessions))
	case q.bytes > maxBytes:
		return wire.Conflict.New(fmt.Sprintf("The chats of a user may have at most %d MiB: delete some of them first.", maxBytes>>20))
	}

	return nil
}

const (
	quotaAge     = time.Minute
	quotaEntries = 10_000
)

// quotas have what users have stored, so that a begin of a chat need not add up all chats of its
// user. They are used while they are new and less than half of the limits: other hubs cannot store
// the other half in that time. The others are read.
type quotas struct {
	mu     sync.Mutex // guards the field below
	byUser map[[2]string]storedQuota
}

type storedQuota struct {
	quota

	at time.Time
}

// add returns what a user has stored, with more that is stored in the transaction.
func (q *quotas) add(ctx context.Context, tx *sql.Tx, tenantID, userID string, more quota, now time.Time) (quota, error) {
	user := [2]string{tenantID, userID}
	if known, ok := q.known(user, more, now); ok {
		return known, nil
	}

	sum, err := quotaOf(ctx, tx, tenantID, userID)
	if err == nil {
		q.put(user, sum, now)
	}

	return sum, err
}

// within returns those of some messages whose users have stored no more than the limits, with these
// messages, which the transaction stores later.
func (q *quotas) within(ctx context.Context, tx *sql.Tx, all []begin, now time.Time) ([]begin, error) {
	var in []begin
	read := map[[2]string][]begin{}
	for _, b := range all {
		user := [2]string{b.TenantID, b.UserID}
		if _, ok := q.known(user, quota{bytes: b.size}, now); ok {
			in = append(in, b)
		} else {
			read[user] = append(read[user], b)
		}
	}

	sums, err := quotasOf(ctx, tx, slices.Collect(maps.Keys(read)))
	for user, sum := range sums {
		for _, b := range read[user] {
			with := sum
			with.bytes += b.size
			if with.check() == nil {
				in, sum = append(in, b), with
			}
		}

		q.put(user, sum, now)
	}

	return in, err
}

// known adds more to what a user has stored, and returns it, if that is known and far from the
// limits.
func (q *quotas) known(user [2]string, more quota, now time.Time) (quota, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, ok := q.byUser[user]
	last.sessions += more.sessions
	last.bytes += more.bytes
	if !ok || now.Sub(last.at) >= quotaAge || last.sessions >= maxSessions/2 || last.bytes >= maxBytes/2 {
		return quota{}, false
	}

	q.byUser[user] = last
	return last.quota, true
}

func (q *quotas) put(user [2]string, sum quota, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.byUser) >= quotaEntries {
		clear(q.byUser)
	}

	q.byUser[user] = storedQuota{sum, now}
}

// saved adds the bytes of an answer, which its begin did not count.
func (q *quotas) saved(run relay.AnswerRun, bytes int) {
	user := [2]string{run.TenantID, run.UserID}
	q.mu.Lock()
	defer q.mu.Unlock()
	if last, ok := q.byUser[user]; ok {
		last.bytes += int64(bytes)
		q.byUser[user] = last
	}
}

// sizeOf returns the number of bytes that messages count for.
func sizeOf(messages ...message) int64 {
	var n int64
	for _, m := range messages {
		n += messageOverhead + int64(len(m.Text)+len(m.Content))
	}

	return n
}
