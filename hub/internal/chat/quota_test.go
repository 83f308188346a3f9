package chat_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// exec changes the database directly, without the service.
func (s *server) exec(query string, args ...any) {
	s.t.Helper()
	_, err := s.db.Write().ExecContext(s.t.Context(), query, args...)
	require.NoError(s.t, err)
}

// number runs a query that returns one number.
func (s *server) number(query string) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.db.Read().QueryRowContext(s.t.Context(), query).Scan(&n))
	return n
}

// bytesOfMessage are the bytes of a message that count. What an answer that continues has waited
// for does not.
const bytesOfMessage = `512 + octet_length(text) + octet_length(content) + CASE status WHEN 'partial' THEN 0 ELSE octet_length(pending) END`

// sizes returns the size of each session, which must be that of its messages.
func (s *server) sizes(want ...int64) {
	s.t.Helper()
	rows, err := db.Collect(s.t.Context(), s.db.Read(), "read sizes", func(row db.Scanner) (sizes [2]int64, err error) {
		return sizes, row.Scan(&sizes[0], &sizes[1])
	}, `SELECT size, (SELECT COALESCE(SUM(`+bytesOfMessage+`), 0) FROM chat_messages m WHERE m.session_key = s.key)
		FROM chat_sessions s ORDER BY id`)
	require.NoError(s.t, err)
	var got []int64
	for _, sizes := range rows {
		require.Equal(s.t, sizes[1], sizes[0])
		got = append(got, sizes[0])
	}
	require.Equal(s.t, want, got)
}

// failures returns the errors of a push by session.
func failures(r apitest.Response) map[string]string {
	all := map[string]string{}
	for _, one := range r.Want(http.StatusOK)["results"].([]any) {
		result := one.(object)
		all[result["id"].(string)], _ = result["error"].(string)
	}
	return all
}

// The bytes of an answer count as soon as it is stored.
func TestAnswersCountForTheLimit(t *testing.T) {
	t.Parallel()
	const half, answer = 1 << 29, 1 << 20
	now := time.Now()
	var elapsed atomic.Int64
	s := open(t, sqlite(t), func(c *config) { c.now = func() time.Time { return now.Add(time.Duration(elapsed.Load())) } })
	ada := s.ada()
	path := session(ada)
	s.exec(`UPDATE chat_sessions SET size = $1`, half-answer)
	elapsed.Store(int64(2 * time.Minute)) // the next message reads it
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		write(events("assistant", said(strings.Repeat("x", answer))) + success)
	}))
	require.Equal(t, "completed", last(say(t, ada, path, "hello")))
	s.exec(`UPDATE chat_sessions SET size = $1`, 2*half) // by another hub
	fault := ada.Post(path+"/messages", object{"message": "more"}).Error(http.StatusConflict, wire.Conflict)
	require.Contains(t, fault["message"], "The chats of a user may have at most 1024 MiB")
}

func TestSessionsOfAUserAreLimited(t *testing.T) {
	const tooMany = "A user may have at most 10000 chat sessions: delete some of them first."
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		ada.Post(push, body(pushed("s1", day1))).Want(http.StatusOK)
		s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9997)
			INSERT INTO chat_sessions (key, tenant_id, user_id, id, user_name, user_search, agent_name, title, source, created_at, updated_at)
			SELECT 'filler-' || i, tenant_id, user_id, 'filler-' || i, user_name, user_search, agent_name, title, source, created_at, 0 FROM chat_sessions, n`)
		path := session(ada)
		require.Equal(t, []string{"created", "invalid", "updated", "unchanged"},
			statuses(ada.Post(push, body(pushed("s2", day1), pushed("s3", day1), pushed("s1", day2), pushed("s1", day2)))))
		require.Equal(t, map[string]string{"s4": tooMany, "s5": tooMany},
			failures(ada.Post(push, body(pushed("s4", day1), pushed("s5", day1, "messages", []object{})))))
		require.Equal(t, tooMany, ada.Post(sessions, nil).Error(http.StatusConflict, wire.Conflict)["message"])
		ada.Get(admin+"/s3").Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, "completed", last(say(t, ada, path, "hello")))
		session(s.As("acme", "zoe", "member"))
		session(s.As("zeta", "ada", "member"))
		ada.Delete(path).Want(http.StatusNoContent)
		session(ada)

		s.exec(`UPDATE chat_sessions SET tenant_id = 'default', user_id = 'zed' WHERE id LIKE 'filler-%'`)
		of := func(user, id string) object { return pushed(id, day1, "user_name", user) }
		withKey(s, body(of("zed", "1"), of("zed", "2"), of("zed", "3"))).Want(http.StatusOK)
		require.Equal(t, []string{"invalid", "created"}, statuses(withKey(s, body(of("zed", "4"), of("amy", "4")))))
	})
}

// last returns the status of an answer.
func last(events []event) string {
	for _, ev := range events {
		if ev.data["type"] == "hub.saved" {
			return ev.data["status"].(string)
		}
	}
	return ""
}

func TestBytesOfAUserAreLimited(t *testing.T) {
	const most = 1 << 30
	const tooMuch = "The chats of a user may have at most 1024 MiB: delete some of them first."
	t.Parallel()
	var later atomic.Int64
	s := open(t, sqlite(t), func(c *config) { c.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) } })
	s.deploy(nil)
	ada := s.ada()
	ada.Post(push, body(pushed("s1", day1), pushed("s2", day1))).Want(http.StatusOK)
	size := int64(2*512 + len("What is it?") + len("It is.") + len(`[{"thinking":"Hm.","type":"thinking"},{"text":"It is.","type":"text"}]`))
	s.sizes(size, size)
	s.exec(`UPDATE chat_sessions SET size = $1 WHERE id = 's2'`, most-4*size)
	long := strings.Repeat("é", 4000)
	more := []object{{"id": "m", "role": "user", "content": long, "created_at": day1}}
	require.Equal(t, map[string]string{"s1": tooMuch, "s3": "", "s4": tooMuch},
		failures(ada.Post(push, body(pushed("s1", day2, "messages", more), pushed("s3", day1), pushed("s4", day1, "messages", more)))))
	require.EqualValues(t, 2, ada.Get(admin + "/s1").Want(http.StatusOK)["messageCount"])
	require.Equal(t, []string{"updated"}, statuses(ada.Post(push, body(pushed("s1", day2, "messages", []object{})))), "what becomes smaller is stored")
	path := session(ada)
	say(t, ada, path, strings.Repeat("x", 100))
	require.Equal(t, tooMuch, ada.Post(path+"/messages", object{"message": long}).Error(http.StatusConflict, wire.Conflict)["message"])
	require.Len(t, messages(ada, path), 2)
	session(s.As("acme", "zoe", "member"))
	ada.Delete(sessions + "/s2").Want(http.StatusNoContent)
	say(t, ada, path, long)

	used := s.number(`SELECT SUM(size) FROM chat_sessions WHERE source = 'push' AND user_id = 'id-ada'`)
	exact := func(room int) {
		s.exec(`UPDATE chat_sessions SET size = $1 WHERE source = 'hub' AND user_id = 'id-ada'`, most-used-room)
		later.Add(int64(time.Minute)) // another hub has stored that
	}
	exact(2*512 + len("hello"))
	require.Equal(t, "completed", last(say(t, ada, path, "hello")), "exactly the limit")
	exact(2*512 + len("hello") - 1)
	require.Equal(t, tooMuch, ada.Post(path+"/messages", object{"message": "hello"}).Error(http.StatusConflict, wire.Conflict)["message"])

	s.exec(`UPDATE chat_sessions SET size = $1 WHERE source = 'hub'`, 2*most)
	const day3, day4 = "2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z"
	require.Equal(t, []string{"updated"}, statuses(ada.Post(push, body(pushed("s3", day2)))), "of the same size")
	longer := pushed("s3", day3)["messages"].([]object)
	longer[0]["content"] = "What is it??"
	res := ada.Post(push, body(pushed("s3", day3, "messages", longer)))
	require.Equal(t, map[string]string{"s3": tooMuch}, failures(res), "one byte longer")
	require.Equal(t, "2026-01-03T00:00:00.000000Z", res.Want(http.StatusOK)["results"].([]any)[0].(object)["server_updated_at"])
	require.Equal(t, []string{"updated"}, statuses(ada.Post(push, body(pushed("s3", day4, "messages", []object{})))), "of a user with too much too")
}

// What other hubs store counts after a minute, and at once for a user who has much.
func TestBytesOfOtherHubsCount(t *testing.T) {
	const half = 1 << 29
	t.Parallel()
	var later atomic.Int64
	s := open(t, sqlite(t), func(c *config) { c.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) } })
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	stored := func(bytes int) { s.exec(`UPDATE chat_sessions SET size = $1`, bytes) }
	send := func() *apitest.Response {
		res := ada.Post(path+"/messages", object{"message": "hello"})
		return &res
	}
	stored(2 * half)
	send().Want(http.StatusOK)
	later.Add(int64(time.Minute))
	send().Error(http.StatusConflict, wire.Conflict)
	stored(half)
	send().Want(http.StatusOK)
	stored(2 * half)
	send().Error(http.StatusConflict, wire.Conflict)
}

// The size of a session is that of its messages, with a client that disconnects and a failed answer
// too.
func TestSizesOfSessions(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		answers := func() (n int64) {
			for _, m := range messages(ada, path) {
				n += 512 + int64(len(m["text"].(string)))
			}
			return n
		}
		s.sizes(0)
		say(t, ada, path, "hello é")
		s.sizes(answers())
		s.deploy(endless(t))
		stream := send(t, ada, path, object{"message": "a message"})
		stream.until("partial_message")
		stream.cancel()
		eventually(t, ada, path)
		s.sizes(answers())
		ada.Post(push, body(pushed("s1", day1))).Want(http.StatusOK)
		ada.Post(push, body(pushed("s1", day2, "messages", []object{}))).Want(http.StatusOK)
		s.sizes(answers(), 0)
		s.exec(`DELETE FROM chat_sessions WHERE id = 's1'`)
		s.serve(http.NotFoundHandler())
		ada.Post(path+"/messages", object{"message": "hello"}).Error(http.StatusBadGateway, code.UpstreamFailed)
		s.sizes(answers())
	})
}

// The sizes of sessions from before the limit are computed.
func TestSizesOfFormerSessions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, url string) {
		former := fstest.MapFS{}
		data, err := fs.ReadFile(chat.Migrations.Files, "all/0001_chat.sql")
		require.NoError(t, err)
		former["all/0001_chat.sql"] = &fstest.MapFile{Data: data}
		d := dbtest.Open(t, url, db.Series{Name: chat.Migrations.Name, Files: former})
		s := &server{t: t, db: d}
		for i, texts := range [][]string{nil, {"é", ""}} {
			key := fmt.Sprint(i)
			s.exec(`INSERT INTO chat_sessions (key, tenant_id, user_id, id, user_name, user_search, agent_name, title, source, created_at, updated_at)
				VALUES ($1, 'acme', 'u', $1, 'u', 'u', 'helper', '', 'hub', 0, 0)`, key)
			for seq, text := range texts {
				s.exec(`INSERT INTO chat_messages (session_key, seq, tenant_id, id, role, status, text, content, created_at)
					VALUES ($1, $2, 'acme', 'm', 'user', 'completed', $3, '[]', 0)`, key, seq, text)
			}
		}
		require.NoError(t, d.Migrate(t.Context(), chat.Migrations))
		s.sizes(0, 2*512+2+2*2)
	})
}
