package chat_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// pushed returns a session with one question and one answer.
func pushed(id, updated string, change ...any) object {
	s := object{
		"id": id, "agent_name": "helper", "created_at": "2026-01-02T03:04:05Z", "updated_at": updated,
		"messages": []object{
			{"id": "m1", "role": "user", "content": "What is it?", "created_at": "2026-01-02T03:04:05+08:00"},
			{"id": "m2", "role": "assistant", "content": []object{{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "It is."}},
				"model": "m", "usage": object{"input_tokens": 3, "output_tokens": 2}, "created_at": "2026-01-02T03:04:06.123456789Z"},
		},
	}
	for i := 0; i < len(change); i += 2 {
		s[change[i].(string)] = change[i+1]
	}
	return s
}

func body(all ...object) object { return object{"sessions": all} }

const (
	day1 = "2026-01-02T00:00:00Z"
	day2 = "2026-01-03T00:00:00Z"
)

// statuses returns the results of a push.
func statuses(r apitest.Response) (all []string) {
	for _, one := range r.Want(http.StatusOK)["results"].([]any) {
		all = append(all, one.(object)["status"].(string))
	}
	return all
}

// withKey pushes with the key.
func withKey(s *server, in object) apitest.Response {
	return s.As("", "", "").Do(http.MethodPost, push, in, "X-Chat-Push-Key", pushKey)
}

func TestPushedSessions(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		first := ada.Post(push, body(pushed("s1", day1), pushed("s2", day1, "title", "A title"))).Want(http.StatusOK)
		require.EqualValues(t, 2, first["accepted"])
		require.Equal(t, []any{
			object{"id": "s1", "status": "created", "server_updated_at": "2026-01-02T00:00:00.000000Z"},
			object{"id": "s2", "status": "created", "server_updated_at": "2026-01-02T00:00:00.000000Z"},
		}, first["results"])
		shown := ada.Get(admin + "/s1").Want(http.StatusOK)
		require.Equal(t, "What is it?", shown["title"])
		require.Equal(t, "push", shown["source"])
		require.Equal(t, "id-ada", shown["userId"])
		require.Equal(t, "ada", shown["userName"])
		require.Equal(t, "2026-01-02T03:04:05.000000Z", shown["createdAt"])
		require.Equal(t, "2026-01-02T03:04:06.123456Z", shown["lastMessageAt"])
		all := messages(ada, sessions+"/s1")
		require.Len(t, all, 2)
		require.Equal(t, "m1", all[0]["id"])
		require.Equal(t, []any{object{"type": "text", "text": "What is it?"}}, all[0]["content"])
		require.Equal(t, "2026-01-01T19:04:05.000000Z", all[0]["createdAt"])
		require.Equal(t, "It is.", all[1]["text"])
		require.Len(t, all[1]["content"], 2)
		require.EqualValues(t, 3, all[1]["usage"].(object)["input_tokens"])

		again := ada.Post(push, body(pushed("s1", day1, "messages", []object{}), pushed("s1", day2, "messages", []object{}), pushed("s1", day1))).Want(http.StatusOK)
		require.Equal(t, object{
			"accepted": 0.0, "updated": 1.0, "skipped": 2.0, "failed": 0.0, "results": []any{
				object{"id": "s1", "status": "unchanged", "server_updated_at": "2026-01-02T00:00:00.000000Z"},
				object{"id": "s1", "status": "updated", "server_updated_at": "2026-01-03T00:00:00.000000Z"},
				object{"id": "s1", "status": "stale", "server_updated_at": "2026-01-03T00:00:00.000000Z"},
			},
		}, again)
		require.Empty(t, messages(ada, sessions+"/s1"))
		require.Len(t, messages(ada, sessions+"/s2"), 2)
		require.Empty(t, s.Audit("acme"))
	})
}

// A session is identified by the tenant, the user and its id.
func TestPushedSessionsOfSeveralUsers(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada, boss := s.ada(), s.As("acme", "max", rbac.Admin)
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1)))))
		require.Equal(t, []string{"created"}, statuses(boss.Post(push, body(pushed("s1", day1, "user_name", "Max M.")))))
		require.Equal(t, []string{"created"}, statuses(s.As("zeta", "ada", rbac.Member).Post(push, body(pushed("s1", day2)))))
		boss.Get(admin+"/s1").Error(http.StatusConflict, wire.Conflict)
		boss.Delete(admin+"/s1").Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, "Max M.", boss.Get(admin + "/s1?user=id-max").Want(http.StatusOK)["userName"])
		require.Len(t, boss.Get(admin+"/s1/messages?user=id-ada").Items(), 2)
		require.Equal(t, "id-ada", ada.Get(admin + "/s1").Want(http.StatusOK)["userId"])
		boss.Delete(admin + "/s1?user=id-ada").Want(http.StatusNoContent)
		ada.Get(admin+"/s1").Error(http.StatusNotFound, wire.NotFound)
		boss.Get(admin + "/s1").Want(http.StatusOK)
		ada.Post(push, body(pushed("s1", day1, "user_name", "max"))).Error(http.StatusForbidden, wire.Forbidden)
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, object{"org": "zeta", "sessions": []object{pushed("s1", day1, "user_name", "ada")}})))
	})
}

func TestPushWithTheKey(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		in := body(pushed("s1", day1, "user_name", "bot"), pushed("s2", day1, "user_name", "bob"))
		in["org"] = "any"
		require.Equal(t, []string{"created", "created"}, statuses(withKey(s, in)))
		shown := s.As("default", "max", rbac.Admin).Get(admin + "/s1").Want(http.StatusOK)
		require.Equal(t, "bot", shown["userId"])
		require.Equal(t, "bot", shown["userName"])
		fields := withKey(s, body(pushed("s1", day1, "user_name", "bot"), pushed("s2", day1))).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Contains(t, fields["data"].(object)["fields"], "sessions[1].user_name")
		require.Equal(t, []string{"invalid"}, statuses(withKey(s, body(pushed("s3", day1, "user_name", " a")))))
		for _, header := range []string{"", "wrong", pushKey + " "} {
			res := s.ada().Do(http.MethodPost, push, in, "X-Chat-Push-Key", header)
			if header == pushKey+" " { // net/http removes surrounding white space
				continue
			}
			res.Error(http.StatusUnauthorized, wire.Unauthenticated)
			require.Empty(t, res.Header.Get("WWW-Authenticate"))
		}
		res := s.As("", "", "").Post(push, in)
		res.Error(http.StatusUnauthorized, wire.Unauthenticated)
		require.Empty(t, res.Header.Get("WWW-Authenticate"))
		s.As("default", "max", rbac.Admin).Do(http.MethodGet, admin, nil, "X-Chat-Push-Key", pushKey).Want(http.StatusOK)
		s.As("", "", "").Do(http.MethodGet, admin, nil, "X-Chat-Push-Key", pushKey).Error(http.StatusUnauthorized, wire.Unauthenticated)
		require.NotContains(t, s.Log.String(), pushKey)
	})
	t.Run("no key", func(t *testing.T) {
		s := open(t, sqlite(t), func(cfg *config) { cfg.push.Key = "" })
		s.As("", "", "").Do(http.MethodPost, push, body(), "X-Chat-Push-Key", "").Error(http.StatusUnauthorized, wire.Unauthenticated)
	})
	t.Run("organizations", func(t *testing.T) {
		s := open(t, sqlite(t), func(cfg *config) {
			cfg.push.ResolveOrg = func(_ context.Context, org string) (string, error) {
				if org == "" {
					return "", wire.InvalidRequest.New("Name an organization.")
				}
				return org, nil
			}
		})
		withKey(s, body(pushed("s1", day1, "user_name", "bot"))).Error(http.StatusBadRequest, wire.InvalidRequest)
		require.Equal(t, []string{"created"}, statuses(withKey(s, object{"org": "zeta", "sessions": []object{pushed("s1", day1, "user_name", "bot")}})))
		s.As("zeta", "max", rbac.Admin).Get(admin + "/s1").Want(http.StatusOK)
		s.As("acme", "max", rbac.Admin).Get(admin+"/s1").Error(http.StatusNotFound, wire.NotFound)
	})
}

// A push may have more values than the body of another route.
func TestAPushOfManyValues(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	const count, blocks = 40, 60
	content := make([]object, blocks)
	for i := range content {
		content[i] = object{"type": "text", "text": "a, [b] {c} \"d\\"}
	}
	messages := make([]object, count)
	for i := range messages {
		messages[i] = object{"id": fmt.Sprint(i), "role": "user", "content": content, "created_at": day1, "other": []any{[]any{"]"}, object{"}": "{"}}}
	}
	var all []object
	for i := range 20 {
		all = append(all, pushed(fmt.Sprint("s", i), day1, "messages", messages))
	}
	ada := s.ada()
	require.EqualValues(t, 20, ada.Post(push, body(all...)).Want(http.StatusOK)["accepted"])
	page := ada.Get(sessions + "/s19/messages?page_size=1&page=40").Want(http.StatusOK)
	require.EqualValues(t, count, page["total"])
	last := page["items"].([]any)[0].(object)
	require.Equal(t, "39", last["id"])
	require.Len(t, last["content"], blocks)
	require.Equal(t, blocks-1, strings.Count(last["text"].(string), "\n\n"))
}

// The memory that a push takes is a small multiple of its bytes.
func TestMemoryOfPushes(t *testing.T) {
	s := open(t, sqlite(t))
	ada := s.ada()
	const size = 256 << 10
	fill := func(text string) string { return strings.TrimSuffix(strings.Repeat(text+",", size/(len(text)+1)), ",") }
	valid := `"id":"s","agent_name":"helper","created_at":"` + day1 + `","updated_at":"` + day1 + `"`
	message := `"role":"user","created_at":"` + day1 + `","content":`
	for name, body := range map[string]string{
		"empty sessions":    `{"sessions":[` + fill(`{}`) + `]}`,
		"no sessions":       `{"sessions":[` + fill(`1`) + `]}`,
		"empty messages":    `{"sessions":[{` + valid + `,"messages":[` + fill(`{}`) + `]}]}`,
		"null messages":     `{"sessions":[{` + valid + `,"messages":[` + fill(`null`) + `]}]}`,
		"repeated ids":      `{"sessions":[{` + valid + `,"messages":[` + fill(`{"id":"m",`+message+`""}`) + `]}]}`,
		"empty blocks":      `{"sessions":[{` + valid + `,"messages":[{"id":"m",` + message + `[` + fill(`{}`) + `]}]}]}`,
		"short blocks":      `{"sessions":[{` + valid + `,"messages":[{"id":"m",` + message + `[` + fill(`{"type":"a"}`) + `]}]}]}`,
		"repeated messages": `{"sessions":[{` + valid + `,` + fill(`"messages":[{"id":"m",`+message+`""}]`) + `}]}`,
		"unknown fields":    `{"other":[` + fill(`[]`) + `],"sessions":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res := ada.Do(http.MethodPost, push, strings.NewReader(body), "Content-Type", "application/json")
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes: allocated %d", len(body), after.TotalAlloc-before.TotalAlloc)
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, res.Status, res.Text)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(poolLoss*30*len(body)))
		})
	}
}

func TestInvalidPushes(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		var many []object
		for i := range 51 {
			many = append(many, pushed(fmt.Sprint("s", i), day1))
		}
		ada.Post(push, body(many...)).Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Empty(t, ada.Get(sessions).Items())
		ada.Post(push, object{}).Error(http.StatusBadRequest, wire.ValidationFailed)
		ada.Post(push, object{"sessions": 1}).Error(http.StatusBadRequest, wire.InvalidRequest)
		require.Empty(t, statuses(ada.Post(push, object{"sessions": []object{}})))
		large := pushed("s1", day1, "title", strings.Repeat("t", 10<<20))
		ada.Post(push, body(large)).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
		values := func(n int) apitest.Response { // two arrays in an object, and n-3 commas
			text := `{"sessions":[],"other":[0` + strings.Repeat(",0", n-4) + `]}`
			return ada.Do(http.MethodPost, push, strings.NewReader(text), "Content-Type", "application/json")
		}
		values(2_000_000).Want(http.StatusOK)
		values(2_000_001).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
		hub := session(ada)
		id := strings.TrimPrefix(hub, sessions+"/")
		message := func(change ...any) []object {
			m := object{"id": "m", "role": "user", "content": "c", "created_at": day1}
			for i := 0; i < len(change); i += 2 {
				m[change[i].(string)] = change[i+1]
			}
			return []object{m}
		}
		for _, in := range []object{
			pushed("", day1), pushed(".", day1), pushed("a/b", day1), pushed("a\nb", day1), pushed(" a", day1), pushed(strings.Repeat("i", 129), day1),
			pushed("s1", "yesterday"), pushed("s1", ""), pushed("s1", day1, "created_at", ""), pushed("s1", day1, "agent_name", "nobody"),
			pushed("s1", day1, "agent_name", ""), pushed("s1", day1, "messages", message("role", "robot")), pushed("s1", day1, "messages", message("id", "")),
			pushed("s1", day1, "messages", message("created_at", "")), pushed("s1", day1, "messages", message("content", nil)),
			pushed("s1", day1, "messages", message("content", 5)), pushed("s1", day1, "messages", message("content", []any{"text"})),
			pushed("s1", day1, "messages", message("content", []object{{"text": "a"}})), pushed("s1", day1, "messages", append(message(), message()...)),
			pushed("s1", day1, "messages", message("model", strings.Repeat("m", 201))), pushed(id, "2100-01-01T00:00:00Z"),
		} {
			valid := pushed("valid", day1)
			res := ada.Post(push, body(in, valid)).Want(http.StatusOK)
			require.EqualValues(t, 1, res["failed"], "%v", in)
			one := res["results"].([]any)[0].(object)
			require.Equal(t, "invalid", one["status"], "%v", in)
			require.NotEmpty(t, one["error"])
		}
		require.Len(t, messages(ada, sessions+"/valid"), 2)
		require.Empty(t, messages(ada, hub))
		s.disabled.Store(true)
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1)))), "a disabled agent exists")
	})
}

func TestConcurrentPushes(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		const n = 4
		done := make(chan error, n)
		for i := range n {
			in := wire.ChatPushRequest{Sessions: make([]wire.PushedSession, 20)}
			for j := range in.Sessions {
				id := fmt.Sprint("s", j)
				if i%2 == 1 {
					id = fmt.Sprint("s", 19-j)
				}
				in.Sessions[j] = wire.PushedSession{ID: id, AgentName: "helper", CreatedAt: day1, UpdatedAt: fmt.Sprintf("2026-01-02T00:00:0%dZ", i),
					Messages: []wire.PushedMessage{{ID: "m", Role: "user", Content: []byte(`"c"`), CreatedAt: day1}}}
			}
			go func() { _, err := s.pushes.Push(t.Context(), ada.Caller, in); done <- err }()
		}
		for range n {
			require.NoError(t, <-done)
		}
		items := ada.Get(sessions + "?page_size=100").Items()
		require.Len(t, items, 20)
		for _, item := range items {
			require.EqualValues(t, 1, item["messageCount"])
			require.Equal(t, "2026-01-02T00:00:03.000000Z", item["updatedAt"], "the newest one is stored")
		}
	})
}

// The conversation of a pushed session is the history of the messages that follow.
func TestAPushedSessionIsContinued(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1)))))
		path := sessions + "/s1"
		say(t, ada, path, "and now?")
		require.Len(t, messages(ada, path), 4)
		require.Equal(t, []string{"stale"}, statuses(ada.Post(push, body(pushed("s1", day2)))))
		require.Equal(t, []string{"updated"}, statuses(ada.Post(push, body(pushed("s1", "2100-01-01T00:00:00Z")))))
		require.Len(t, messages(ada, path), 2)
		require.Equal(t, false, say(t, ada, path, "again")[1].data["resumed"], "the session of the runtime has other messages")
	})
}
