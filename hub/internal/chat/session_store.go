package chat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

func noSession() error { return wire.NotFound.New("There is no such chat session.") }

// sessionColumns are the columns that scanSession reads, in its order.
const sessionColumns = `key, tenant_id, user_id, id, user_name, agent_name, title, source, message_count, size, runtime_session, waiting, ephemeral, conversation, last_message_at,
	created_at, updated_at`

func scanSession(row db.Scanner) (session, error) {
	var (
		s                session
		last             sql.NullInt64
		created, updated int64
	)
	err := row.Scan(&s.Key, &s.TenantID, &s.UserID, &s.ID, &s.UserName, &s.AgentName, &s.Title, &s.Source, &s.Messages, &s.Size, &s.RuntimeSession, &s.Waiting, &s.Ephemeral,
		&s.Conversation, &last, &created, &updated)
	s.LastMessageAt, s.CreatedAt, s.UpdatedAt = db.NullTime(last), db.Time(created), db.Time(updated)
	return s, err
}

// reference identifies a session. Without UserID or AgentName it may be that of any.
type reference struct{ TenantID, UserID, AgentName, ID string }

// conditions are the conditions of a query and their arguments.
type conditions struct {
	sql  []string
	args []any
}

// add adds a condition with %d for the number of its argument.
func (c *conditions) add(condition string, arg any) {
	c.args = append(c.args, arg)
	c.sql = append(c.sql, fmt.Sprintf(condition, len(c.args)))
}

func (c *conditions) addText(condition, arg string) {
	if arg != "" {
		c.add(condition, arg)
	}
}

func (c *conditions) String() string { return strings.Join(c.sql, " AND ") }

// findSession returns a session. It fails with wire.NotFound, or with wire.Conflict if several
// users have a session with the id.
func findSession(ctx context.Context, q db.Querier, ref reference) (session, error) {
	var where conditions
	where.add("tenant_id = $%d", ref.TenantID)
	where.add("id = $%d", ref.ID)
	where.addText("user_id = $%d", ref.UserID)
	where.addText("agent_name = $%d", ref.AgentName)
	found, err := db.Collect(ctx, q, "read chat session", scanSession,
		`SELECT `+sessionColumns+` FROM chat_sessions WHERE `+where.String()+` LIMIT 2`, where.args...)
	switch {
	case err != nil:
		return session{}, err
	case len(found) == 0:
		return session{}, noSession()
	case len(found) > 1:
		return session{}, wire.Conflict.New("Several users have a session with this id: add ?user= with the id of one of them.")
	}

	return found[0], nil
}

// filter selects sessions of a tenant. Empty fields select all.
type filter struct {
	TenantID, UserID, AgentName, Source string

	User     string    // part of the name or the id of the user, in any letter case
	From, To time.Time // of CreatedAt, inclusive
}

func (f filter) conditions() *conditions {
	where := &conditions{}
	where.add("tenant_id = $%d AND NOT ephemeral", f.TenantID)
	where.addText("user_id = $%d", f.UserID)
	where.addText("agent_name = $%d", f.AgentName)
	where.addText("source = $%d", f.Source)
	if f.User != "" {
		where.add(`user_search LIKE $%d ESCAPE '\'`, db.Containing(strings.ToLower(f.User)))
	}

	if !f.From.IsZero() {
		where.add("created_at >= $%d", db.Micros(f.From))
	}

	if !f.To.IsZero() {
		where.add("created_at <= $%d", db.Micros(f.To))
	}

	return where
}

// sessionsOf returns a page of sessions, the latest change first, and the number of all.
func sessionsOf(ctx context.Context, q db.Querier, f filter, page api.Page) ([]session, int, error) {
	where := f.conditions()
	part := db.Page{Order: `updated_at DESC, key DESC`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list chat sessions", scanSession, part, `SELECT `+sessionColumns+` FROM chat_sessions WHERE `+where.String(), where.args...)
}

// insertSession reports whether the session is new for its user.
func insertSession(ctx context.Context, tx *sql.Tx, s session) (bool, error) {
	n, err := db.Affected(ctx, tx, "insert chat session", `INSERT INTO chat_sessions
			(key, tenant_id, user_id, id, user_name, user_search, agent_name, title, source, message_count, size, last_message_at, created_at, updated_at, ephemeral)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (tenant_id, user_id, id) DO NOTHING`,
		s.Key, s.TenantID, s.UserID, s.ID, s.UserName, userSearch(s.UserName, s.UserID), s.AgentName, s.Title, s.Source, s.Messages, s.Size,
		db.NullMicros(s.LastMessageAt), db.Micros(s.CreatedAt), db.Micros(s.UpdatedAt), s.Ephemeral)
	return n == 1, err
}

func userSearch(name, id string) string { return strings.ToLower(name + "\n" + id) }

// deleteSession deletes a session with its messages. It returns the session as of its deletion, and
// the id of the run in progress, if there is one, whose hub cancels it. The run remains until it
// has ended.
func deleteSession(ctx context.Context, tx *sql.Tx, s session) (session, string, error) {
	deleted, err := scanSession(tx.QueryRowContext(ctx,
		`DELETE FROM chat_sessions WHERE tenant_id = $1 AND key = $2 RETURNING `+sessionColumns, s.TenantID, s.Key))
	if err != nil {
		return session{}, "", db.WrapOne("delete chat session", err, noSession()) // a concurrent call was first
	}

	var runID string
	err = tx.QueryRowContext(ctx, `UPDATE chat_runs SET cancel = TRUE WHERE tenant_id = $1 AND session_key = $2 RETURNING run_id`, s.TenantID, s.Key).Scan(&runID)
	return deleted, runID, db.WrapOne("cancel run of chat session", err, nil)
}

// advanceSession reserves the next two seqs of a session, whose row it locks, and returns it. size
// is that of both messages. The session must have the conversation before the message, unless that
// is "".
func advanceSession(ctx context.Context, tx *sql.Tx, ref reference, before relay.Conversation, title string, size int64, now time.Time) (session, error) {
	s, err := scanSession(tx.QueryRowContext(ctx, `UPDATE chat_sessions SET message_count = message_count + 2, size = size + $2, conversation = '',
			last_message_at = $1, updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END,
			title = CASE WHEN title = '' THEN $3 ELSE title END
		WHERE tenant_id = $4 AND user_id = $5 AND id = $6 AND agent_name = $7 AND $8 IN ('', conversation) RETURNING `+sessionColumns,
		db.Micros(now), size, title, ref.TenantID, ref.UserID, ref.ID, ref.AgentName, string(before)))
	return s, db.WrapOne("update chat session", err, noSession())
}

// sessionOf returns the id of the session of a user and an agent with a conversation, the latest
// change first, or "".
func sessionOf(ctx context.Context, q db.Querier, ref reference, c relay.Conversation) (string, error) {
	id, err := db.Value[string](ctx, q, "find chat session of conversation", `SELECT id FROM chat_sessions
		WHERE tenant_id = $1 AND user_id = $2 AND agent_name = $3 AND conversation = $4 AND conversation <> '' AND NOT waiting
		ORDER BY updated_at DESC LIMIT 1`, ref.TenantID, ref.UserID, ref.AgentName, string(c))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}

	return id, err
}

// begin is a message that begins an answer in a session.
type begin struct {
	reference

	clientID, title string
	size            int64 // of the message and its answer
}

// lockSessions returns the sessions of messages that were not sent before, and locks their rows and
// their runs, as the first statement of a transaction of the hub. It leaves out those that another
// transaction has locked.
func (s *Service) lockSessions(ctx context.Context, tx *sql.Tx, all []begin) (map[reference]session, error) {
	args := []any{s.store.HubID}
	for _, b := range all {
		args = append(args, b.TenantID, b.UserID, b.ID, b.AgentName, b.clientID)
	}

	query := `SELECT ` + sessionColumns + ` FROM ` + s.store.Owner(1) + ` AS owner
			CROSS JOIN ` + db.Table(2, len(all), "TEXT", "TEXT", "TEXT", "TEXT", "TEXT") + ` AS sent
			JOIN chat_sessions AS s ON s.tenant_id = sent.column1 AND s.user_id = sent.column2 AND s.id = sent.column3 AND s.agent_name = sent.column4
		WHERE NOT EXISTS (SELECT 1 FROM chat_messages AS m WHERE m.session_key = s.key AND m.client_id = sent.column5)
			AND ` + s.relay.TryLock("sent.column1", "sent.column2", "sent.column4")
	if s.store.DB.Engine() == db.PostgreSQL {
		query += ` FOR NO KEY UPDATE OF s SKIP LOCKED`
	}

	sessions := map[reference]session{}
	_, err := db.Collect(ctx, tx, "lock chat sessions", func(row db.Scanner) (session, error) {
		s, err := scanSession(row)
		sessions[reference{s.TenantID, s.UserID, s.AgentName, s.ID}] = s
		return s, err
	}, query, args...)
	return sessions, err
}

// advanceSessions is advanceSession for sessions that are locked.
func advanceSessions(ctx context.Context, tx *sql.Tx, all []begin, sessions map[reference]session, now time.Time) error {
	args := []any{db.Micros(now)}
	for _, b := range all {
		args = append(args, b.TenantID, sessions[b.reference].Key, b.size, b.title)
	}

	return db.Exec(ctx, tx, "update chat sessions", `UPDATE chat_sessions SET message_count = message_count + 2, size = size + sent.column3, conversation = '',
			last_message_at = $1, updated_at = CASE WHEN updated_at < $1 THEN $1 ELSE updated_at END,
			title = CASE WHEN title = '' THEN sent.column4 ELSE title END
		FROM `+db.Table(2, len(all), "TEXT", "TEXT", "BIGINT", "TEXT")+` AS sent WHERE tenant_id = sent.column1 AND key = sent.column2`, args...)
}

// lockSession returns a session, and locks its row.
func lockSession(ctx context.Context, tx *sql.Tx, tenantID, userID, id string) (session, error) {
	s, err := scanSession(tx.QueryRowContext(ctx, `UPDATE chat_sessions SET updated_at = updated_at
		WHERE tenant_id = $1 AND user_id = $2 AND id = $3 RETURNING `+sessionColumns, tenantID, userID, id))
	return s, db.WrapOne("lock chat session", err, noSession()) // it was deleted in the meantime
}

// replaceSession replaces the fields of a pushed session, and deletes its messages. The session of
// the runtime no longer fits.
func replaceSession(ctx context.Context, tx *sql.Tx, s session) error {
	err := db.Exec(ctx, tx, "replace chat session", `UPDATE chat_sessions SET user_name = $1, user_search = $2, agent_name = $3, title = $4, message_count = $5,
			last_message_at = $6, created_at = $7, updated_at = $8, size = $11, runtime_session = '', waiting = FALSE, conversation = ''
		WHERE tenant_id = $9 AND key = $10`, s.UserName, userSearch(s.UserName, s.UserID), s.AgentName, s.Title, s.Messages,
		db.NullMicros(s.LastMessageAt), db.Micros(s.CreatedAt), db.Micros(s.UpdatedAt), s.TenantID, s.Key, s.Size)
	if err == nil {
		err = db.Exec(ctx, tx, "delete chat messages", `DELETE FROM chat_messages WHERE tenant_id = $1 AND session_key = $2`, s.TenantID, s.Key)
	}

	if err == nil {
		err = db.Exec(ctx, tx, "delete files of chat", `DELETE FROM chat_files WHERE tenant_id = $1 AND session_key = $2`, s.TenantID, s.Key)
	}

	if err == nil {
		err = relay.DeleteWaits(ctx, tx, s.TenantID, s.Key)
	}

	return err
}

// HasData reports whether the tenant has chats.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	return db.Value[bool](ctx, tx, "read chats", `SELECT EXISTS (SELECT 1 FROM chat_sessions WHERE tenant_id = $1)`, tenantID)
}

// quotasOf returns what users have stored, each of a tenant. One without a session is left out.
func quotasOf(ctx context.Context, q db.Querier, users [][2]string) (map[[2]string]quota, error) {
	sums := map[[2]string]quota{}
	for some := range db.Chunks(users) {
		var args []any
		for _, user := range some {
			args = append(args, user[0], user[1])
		}

		_, err := db.Collect(ctx, q, "count chats of users", func(row db.Scanner) (user [2]string, err error) {
			var sum quota
			err = row.Scan(&user[0], &user[1], &sum.sessions, &sum.bytes)
			sums[user] = sum
			return user, err
		}, `SELECT s.tenant_id, s.user_id, COUNT(*), CAST(SUM(s.size) AS BIGINT) FROM `+db.Table(1, len(some), "TEXT", "TEXT")+` AS sent
			CROSS JOIN chat_sessions AS s WHERE s.tenant_id = sent.column1 AND s.user_id = sent.column2 GROUP BY s.tenant_id, s.user_id`, args...)
		if err != nil {
			return nil, err
		}
	}

	return sums, nil
}

// quotaOf returns what a user has stored.
func quotaOf(ctx context.Context, q db.Querier, tenantID, userID string) (quota, error) {
	var sum quota
	err := q.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(size), 0) FROM chat_sessions WHERE tenant_id = $1 AND user_id = $2`, tenantID, userID).
		Scan(&sum.sessions, &sum.bytes)
	return sum, db.Wrap("count chats of user", err)
}
