package chat_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	pushes "github.com/seed93082962/agenthost/hub/internal/chat/push"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Each session of a push has its own fault, or none.
func TestFaultsOfPushedSessions(t *testing.T) {
	message := func(change ...any) object {
		m := object{"id": "m", "role": "user", "content": "c", "created_at": day1}
		for i := 0; i < len(change); i += 2 {
			m[change[i].(string)] = change[i+1]
		}
		return m
	}
	of := func(all ...object) object { return pushed("s", day1, "messages", all) }
	withoutContent := message()
	delete(withoutContent, "content")
	const notATime = "must be a time in the form of RFC 3339, such as 2006-01-02T15:04:05Z"
	rows := []struct {
		in   object
		want string
	}{
		{pushed(strings.Repeat("é", 128), day1), ""},
		{pushed(strings.Repeat("é", 129), day1), "id must have at most 128 characters"},
		{pushed("", day1), "id must not be empty"},
		{pushed(" s", day1), "id must not begin or end with white space"},
		{pushed("s\n2", day1), "id must not have control characters"},
		{pushed(".", day1), "id must not be a path"},
		{pushed("..", day1), "id must not be a path"},
		{pushed("s/2", day1), "id must not be a path"},
		{pushed("s.", day1), ""},
		{pushed("user1", day1, "user_name", strings.Repeat("é", 128)), ""},
		{pushed("user2", day1, "user_name", strings.Repeat("é", 129)), "user_name must have at most 128 characters"},
		{pushed("user3", day1, "user_name", "a "), "user_name must not begin or end with white space"},
		{pushed("s", day1, "created_at", day1[1:]), "created_at " + notATime},
		{pushed("s", day1[1:]), "updated_at " + notATime},
		{pushed("s", day1, "agent_name", "nobody"), "there is no agent with this agent_name"},
		{of(message("model", strings.Repeat("é", 200))), ""},
		{of(message("model", strings.Repeat("é", 201))), "messages[0]: model must have at most 200 characters"},
		{of(message(), message("id", "m2", "role", "robot")), "messages[1]: role must be user or assistant"},
		{of(message(), message("id", "m 2"), message()), `messages[2]: id "m" occurs twice`},
		{of(message("id", "a/b")), "messages[0]: id must not be a path"},
		{of(message("created_at", "")), "messages[0]: created_at " + notATime},
		{pushed("s", day1, "created_at", "1969-12-31T23:59:59Z"), "created_at must be in the years 1970 to 9999"},
		{pushed("s", day1, "created_at", "1970-01-01T01:00:00+02:00"), "created_at must be in the years 1970 to 9999"},
		{pushed("s", day1, "created_at", "0000-01-01T00:00:00Z"), "created_at must be in the years 1970 to 9999"},
		{pushed("s", "9999-12-31T23:59:59-01:00"), "updated_at must be in the years 1970 to 9999"},
		{pushed("s", "10000-01-01T00:00:00Z"), "updated_at " + notATime},
		{pushed("s", "9999-12-31T23:59:59.999999999Z", "created_at", "1970-01-01T00:00:00Z"), ""},
		{of(message("created_at", "0001-01-01T00:00:00Z")), "messages[0]: created_at must be in the years 1970 to 9999"},
		{of(message("content", "")), ""},
		{of(message("content", []any{})), ""},
		{of(message("content", 5)), "messages[0]: content must be a string or an array of blocks"},
		{of(withoutContent), "messages[0]: content must be a string or an array of blocks"},
		{of(message("content", []any{5})), "messages[0]: content[0] must be an object with a type"},
		{of(message("content", []any{object{"toString": 1}})), "messages[0]: content[0] must be an object with a type"},
		{of(message("content", []any{object{"type": object{"a": 1}}})), "messages[0]: content[0] must be an object with a type"},
		{of(message("content", []any{object{"type": "text", "text": object{"toString": 1}}})), "messages[0]: content[0].text must be a string, not object"},
		{of(message(), message("id", "n", "content", []any{object{"type": "a"}, object{"type": "tool_use", "input": "x"}})), "messages[1]: content[1].input must be an object"},
		{of(message("content", []any{object{"type": "subagent_message", "content": []any{object{"type": "thinking", "thinking": 1}}}})), "messages[0]: content[0].content[0].thinking must be a string, not number"},
		{of(message("content", slices.Repeat([]any{object{"type": "tool_result"}}, 100_000))), "messages[0]: content must have at most 10485760 bytes with all members of its blocks"},
		{of(message("content", []any{object{"type": "image", "text": object{"toString": 1}}})), ""},
		{of(message("content", []any{object{"type": "text", "text": "a"}, object{"text": "b"}})), "messages[0]: content[1] must be an object with a type"},
	}
	with(t, nil, func(t *testing.T, s *server) {
		var all []object
		for i, row := range rows {
			if row.in["id"] == "s" {
				row.in["id"] = fmt.Sprint("s", i)
			}
			all = append(all, row.in)
		}
		res := s.As("acme", "max", rbac.Admin).Post(push, body(all...)).Want(http.StatusOK)
		for i, one := range res["results"].([]any) {
			got, _ := one.(object)["error"].(string)
			require.Equal(t, rows[i].want, got, "%v", rows[i].in)
			require.Equal(t, rows[i].want == "", one.(object)["status"] == "created")
		}
	})
}

// A push has at most 50 sessions, each of which is an object.
func TestSessionsOfAPush(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		var all []object
		for i := range 51 {
			all = append(all, pushed(fmt.Sprint("s", i), day1, "messages", []object{}))
		}
		require.EqualValues(t, 50, ada.Post(push, body(all[:50]...)).Want(http.StatusOK)["accepted"])
		fault := ada.Post(push, body(all...)).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Equal(t, object{"sessions": "must have at most 50 sessions"}, fault["data"].(object)["fields"])
		fault = ada.Post(push, object{"sessions": nil}).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Equal(t, object{"sessions": "must be an array"}, fault["data"].(object)["fields"])
		ada.Post(push, object{"sessions": []int{1}}).Error(http.StatusBadRequest, wire.InvalidRequest)
		ada.Post(push, body(pushed("s", day1, "messages", []int{1}))).Error(http.StatusBadRequest, wire.InvalidRequest)
	})
}

// The title of a session without one is the start of the first message of its user.
func TestTitlesOfPushedSessions(t *testing.T) {
	line := strings.Repeat("é", 80)
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		for i, row := range []struct{ title, message, want string }{
			{"", line, line},
			{"", line + "é", line + "..."},
			{"", " \n a \t b\x01 \r\nmore", "a b\uFFFD"},
			{" A title ", "hello", "A title"},
			{line + line + line[:80], "hello", line + line + line[:80]},
			{line + line + line, "hello", line + line + line[:80]},
		} {
			var all []object
			for j, text := range []string{"welcome", row.message, "another"} {
				role := "user"
				if j == 0 {
					role = "assistant"
				}
				all = append(all, object{"id": fmt.Sprint(j), "role": role, "content": text, "created_at": day1})
			}
			id := fmt.Sprint("s", i)
			require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed(id, day1, "title", row.title, "messages", all)))))
			require.Equal(t, row.want, ada.Get(admin + "/" + id).Want(http.StatusOK)["title"])
		}
	})
}

// The text of a message is that of its text blocks.
func TestBlocksOfPushedMessages(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		content := []any{
			object{"type": "text", "text": ""}, object{"type": "text", "text": "a"}, object{"type": "image", "text": "b"}, object{"type": "text", "text": "c"},
		}
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1, "messages", []object{
			{"id": "m", "role": "assistant", "content": content, "model": " a model ", "created_at": day1},
		})))))
		stored := messages(ada, sessions+"/s1")[0]
		require.Equal(t, "a\n\nc", stored["text"])
		require.Len(t, stored["content"], 4)
		require.Equal(t, "a model", stored["model"])
	})
}

// A session with an answer in progress is not replaced.
func TestAPushDuringAnAnswer(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1)))))
		path := sessions + "/s1"
		answer := send(t, ada, path, object{"message": "hello"})
		answer.until("partial_message")
		later := body(pushed("s1", "2100-01-01T00:00:00Z"))
		res := ada.Post(push, later)
		require.Equal(t, map[string]string{"s1": "an answer is in progress in this session: push it again later"}, failures(res))
		stored := ada.Get(admin + "/s1").Want(http.StatusOK)["updatedAt"]
		require.Equal(t, stored, res.Want(http.StatusOK)["results"].([]any)[0].(object)["server_updated_at"])
		answer.cancel()
		eventually(t, ada, path)
		require.Equal(t, []string{"updated"}, statuses(ada.Post(push, later)))
	})
}

// Programs with the key share the memory of bodies with those at their own address only.
func TestSlowPushesWithTheKey(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) {
		c.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = r.Header.Get("From") + ":1"
				next.ServeHTTP(w, r)
			})
		}
	})
	for range 8 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: hub\r\nFrom: 10.0.0.1\r\nX-Chat-Push-Key: %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", push, pushKey)
		require.NoError(t, err)
		status, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, status, " 100 ", "it reads the body")
	}
	from := func(address string) int {
		return s.As("", "", "").Do(http.MethodPost, push, object{"sessions": []object{}}, "X-Chat-Push-Key", pushKey, "From", address).Status
	}
	require.Equal(t, http.StatusOK, from("10.0.0.2"))
	require.Equal(t, http.StatusTooManyRequests, from("10.0.0.1"))
}

// The requirements of a service are checked when it is made.
func TestServicesWithoutARequirement(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	for _, cfg := range []pushes.Config{{Chats: s.service}, {Catalog: s}} {
		_, err := pushes.New(cfg)
		require.EqualError(t, err, "create push service: Chats and Catalog are required")
	}
	for _, cfg := range []relay.Config{{Store: s.store}, {Deployments: s}} {
		_, err := relay.New(cfg)
		require.EqualError(t, err, "create relay: Store and Deployments are required")
	}
	for _, cfg := range []chat.Config{{Catalog: s, Deployments: s}, {Store: s.store, Deployments: s}, {Store: s.store, Catalog: s}} {
		_, err := chat.New(cfg)
		require.EqualError(t, err, "create chat service: Store, Catalog and Deployments are required")
	}
}

// broken is a catalog whose database is unavailable.
type broken struct{ err error }

func (b broken) AgentEnabled(context.Context, api.Caller, string) (bool, error) { return false, b.err }

func TestAPushWithoutTheCatalog(t *testing.T) {
	t.Parallel()
	failed := errors.New("the catalog fails")
	s := open(t, sqlite(t), func(c *config) { c.push.Catalog = broken{failed} })
	_, err := s.pushes.Push(t.Context(), s.ada().Caller, wire.ChatPushRequest{Sessions: []wire.PushedSession{{ID: "s", AgentName: "helper", CreatedAt: day1, UpdatedAt: day1}}})
	require.ErrorIs(t, err, failed)
	_, err = s.pushes.Push(t.Context(), api.Caller{}, wire.ChatPushRequest{})
	require.Error(t, err, "without a role")
}

// The run of a hub that was killed ends with the conversation that is replaced.
func TestAPushAfterAHubWasKilled(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = time.Hour }) // the sweep does not run
	ada := s.ada()
	require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1)))))
	s.exec(`INSERT INTO chat_runs (run_id, tenant_id, session_key, hub_id) SELECT '1', tenant_id, key, 'killed' FROM chat_sessions`)
	require.Equal(t, []string{"updated"}, statuses(ada.Post(push, body(pushed("s1", day2)))))
	require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_runs`))
}
