package chat_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	runtimesession "github.com/seed93082962/agenthost/runtime/session"
)

// A client tool and an approval wait together. With a role, each gives its own answers, and the
// last one continues the answer.
func TestTheOwnerAndARoleAnswer(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		calls := modeltest.Stream(modeltest.ToolCall("t1", "Write", `{"file_path":"a.txt","content":"x"}`), modeltest.ToolCall("t2", "open", `{"page":1}`))
		return modeltest.Start(t, modeltest.Anthropic, calls, modeltest.Stream(modeltest.Text("Done.")))
	}
	each(t, up, func(t *testing.T, s *server) {
		role := "maintainer"
		s.approvers.Store(&role)
		ada, bob := s.ada(), s.As("acme", "bob", rbac.Maintainer)
		path := session(ada)
		tools := []object{{"name": "open", "description": "Opens a page.", "inputSchema": object{"type": "object"}}}
		saved := send(t, ada, path, object{"message": "go", "inputs": []string{"approval", "client_tool"}, "clientTools": tools}).rest()
		pending := saved[len(saved)-2].data["pending"].([]any)
		require.Len(t, pending, 2)
		approval, tool := pending[0].(object)["id"], pending[1].(object)["id"]
		require.Len(t, bob.Get(approvals).Items(), 1, "a program calls the tool of the client")
		both := object{"answers": []object{{"id": approval, "decision": "approve"}, {"id": tool, "output": "page 1"}}}
		ada.Post(path+"/messages", both).Error(http.StatusForbidden, wire.Forbidden)
		bob.Post(approvals+"/"+tool.(string), object{"decision": "approve"}).Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, "waiting", ada.Post(path+"/messages", object{"answers": []object{{"id": tool, "output": "page 1"}}}).Want(http.StatusAccepted)["state"])
		now := messages(ada, path)[1]
		require.Equal(t, "waiting", now["status"])
		require.Len(t, now["pending"], 1)
		s.sizes(s.stored()...)
		ada.Post(path+"/messages", object{"answers": []object{{"id": tool, "output": "page 2"}}}).Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, "running", bob.Post(approvals+"/"+approval.(string), object{"decision": "approve"}).Want(http.StatusAccepted)["state"])
		after := awaits(t, ada, path, "completed")
		answered := blocks(after, "answered")
		require.Len(t, answered, 2)
		require.Equal(t, []any{"approve", "bob", "output", "ada"}, []any{answered[0]["decision"], answered[0]["user_name"], answered[1]["decision"], answered[1]["user_name"]})
		require.Contains(t, fmt.Sprint(blocks(after, "tool_result")), "page 1")
	})
}

// A runtime that does not accept the answers leaves them waiting, and they can be given again.
func TestAnswersThatNoRuntimeAccepts(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		real := *s.endpoint.Load()
		broken := real
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		broken.URL = gone.URL
		s.endpoint.Store(&broken)
		body := answers(pending, object{"decision": "approve"})
		body["clientMessageId"] = "1"
		for range 2 {
			ada.Post(path+"/messages", body).Error(http.StatusBadGateway, code.UpstreamFailed)
			ada.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Error(http.StatusBadGateway, code.UpstreamFailed)
			require.Equal(t, pending, messages(ada, path)[1]["pending"])
			require.Empty(t, blocks(messages(ada, path)[1], "answered"), "it waits as before")
			s.sizes(s.stored()...)
			require.Len(t, ada.Get(approvals).Items(), 1)
			require.Equal(t, true, ada.Get(sessions).Items()[0]["waiting"])
		}
		s.endpoint.Store(nil)
		ada.Post(path+"/messages", body).Error(http.StatusConflict, code.AgentNotDeployed)
		s.endpoint.Store(&real)
		body["clientMessageId"] = "2"
		require.Equal(t, "completed", last(send(t, ada, path, body).rest()))
		again := ada.Post(path+"/messages", body).Want(http.StatusOK)
		require.Equal(t, "completed", again["status"])
		require.Equal(t, messages(ada, path)[1]["id"], again["assistantMessage"].(object)["id"])
		require.Len(t, blocks(messages(ada, path)[1], "tool_result"), 1)
	})
}

// A runtime without the session drops what waits, and a message continues with what the hub has.
func TestARuntimeThatLostWhatWaits(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Again."))))
		e := ada.Post(path+"/messages", answers(pending, object{"decision": "approve"})).Error(http.StatusConflict, wire.Conflict)
		require.Contains(t, e["message"], "no longer has this conversation")
		now := messages(ada, path)[1]
		require.Equal(t, "failed", now["status"])
		require.Contains(t, now["error"].(object)["message"], "no longer has this conversation")
		require.NotContains(t, now, "pending")
		s.sizes(s.stored()...)
		require.Empty(t, ada.Get(approvals).Items())
		require.Equal(t, "completed", last(say(t, ada, path, "and?")))
		require.Equal(t, "Again.", messages(ada, path)[3]["text"])
	})
}

// After a deploy with other rules, or without the tool, the new rules win: the call can only be
// rejected.
func TestOtherRulesAfterTheWait(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string]string{"a rule": "Write(a.txt)", "no tool": "Write"} {
		t.Run(name, func(t *testing.T) { otherRules(t, denied) })
	}
}

// runtimes returns a function that starts a runtime with denied tools, in place of the former one
// and with its sessions.
func (s *server) runtimes(up *modeltest.Upstream) func(denied ...string) {
	t := s.t
	state, cwd := t.TempDir(), t.TempDir()
	return func(denied ...string) {
		helper := agent.Agent{ID: "helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k"}, DisallowedTools: denied}
		files, err := runtimesession.NewFiles(runtimesession.FilesConfig{Dir: state, CWD: cwd})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, files.Close()) })
		rt, err := runtime.New(t.Context(), runtime.Config{Agents: []agent.Agent{helper}, CWD: cwd, Sessions: files, APIKeys: []string{"runtime-key"}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		s.serve(rt)
	}
}

// If the runtime rejects a former answer, all wait again: another answer can be given to each.
func TestAFormerAnswerThatIsRejected(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		calls := modeltest.Stream(modeltest.ToolCall("t1", "Write", `{"file_path":"a.txt","content":"x"}`), modeltest.ToolCall("t2", "Write", `{"file_path":"b.txt","content":"x"}`))
		start := s.runtimes(modeltest.Start(t, modeltest.Anthropic, calls, modeltest.Stream(modeltest.Text("Done."))))
		start()
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		require.Len(t, pending, 2)
		one, two := approvals+"/"+idOf(pending), approvals+"/"+idOf(pending[1:])
		ada.Post(one, object{"decision": "approve"}).Want(http.StatusAccepted)
		start("Write(a.txt)")
		ada.Post(two, object{"decision": "approve"}).Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, pending, messages(ada, path)[1]["pending"])
		require.Len(t, ada.Get(approvals).Items(), 2)
		ada.Post(one, object{"decision": "reject"}).Want(http.StatusAccepted)
		ada.Post(two, object{"decision": "approve"}).Want(http.StatusAccepted)
		awaits(t, ada, path, "completed")
	})
}

// A runtime that gives an id of another chat does not show one call and have another one approved.
func TestTwoWaitsWithTheSameID(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		for _, executed := range []string{"ls", "rm -rf /"} {
			s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
				write("event: system\ndata: {\"subtype\":\"init\",\"session_id\":\"s1\"}\n\nevent: result\ndata: {\"type\":\"result\",\"subtype\":\"input_required\",\"is_error\":false," +
					"\"stop_reason\":\"input_required\",\"usage\":{},\"pending\":[{\"id\":\"1\",\"kind\":\"approval\",\"tool_name\":\"Bash\",\"tool_use_id\":\"t\",\"input\":{}," +
					"\"executed\":\"" + executed + "\"}]}\n\nevent: done\ndata: {}\n\n")
			}))
			ask(t, ada, session(ada))
		}
		require.Len(t, ada.Get(approvals).Items(), 1)
		shown := ada.Get(approvals + "/1").Want(http.StatusOK)
		require.Equal(t, "ls", shown["executed"])
		s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) { write(success) }))
		ada.Delete(sessions + "/" + shown["sessionId"].(string)).Want(http.StatusNoContent)
		ada.Post(approvals+"/1", object{"decision": "approve"}).Error(http.StatusNotFound, wire.NotFound)
	})
}

func otherRules(t *testing.T, denied string) {
	each(t, nil, func(t *testing.T, s *server) {
		up := modeltest.Start(t, modeltest.Anthropic, writes("a.txt"), modeltest.Stream(modeltest.Text("Done.")))
		start := s.runtimes(up)
		start()
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		start(denied)
		e := ada.Post(path+"/messages", answers(pending, object{"decision": "approve"})).Error(http.StatusConflict, wire.Conflict)
		require.Contains(t, e["message"], "reject it")
		require.Equal(t, pending, messages(ada, path)[1]["pending"])
		require.Equal(t, "completed", last(send(t, ada, path, answers(pending, object{"decision": "reject"})).rest()))
	})
}

// Budgets and limits apply again, and leave what waits.
func TestABudgetThatEndsBeforeTheAnswer(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		root := s.As("acme", "root", rbac.Admin)
		root.Put("/api/v1/admin/budgets/agent/helper", object{"period": "day", "unit": "tokens", "hard": 1, "reserve": 1}).Want(http.StatusOK)
		ada.Post(path+"/messages", answers(pending, object{"decision": "approve"})).Error(http.StatusTooManyRequests, wire.RateLimited)
		require.Equal(t, pending, messages(ada, path)[1]["pending"])
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "agent.approve_call", "nothing is stored")
		root.Delete("/api/v1/admin/budgets/agent/helper").Want(http.StatusNoContent)
		require.Equal(t, "completed", last(send(t, ada, path, answers(pending, object{"decision": "approve"})).rest()))
		used := root.Get("/api/v1/admin/usage").Want(http.StatusOK)["totals"].(object)
		require.EqualValues(t, 2, used["runs"])
	})
}

// A deleted chat, a deleted agent and a push drop what waits.
func TestWhatWaitsIsDropped(t *testing.T) {
	each(t, func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(writes("a.txt")))
	}, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		ada.Delete(path).Want(http.StatusNoContent)
		require.Empty(t, ada.Get(approvals).Items())
		ada.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Error(http.StatusNotFound, wire.NotFound)
		ada.Post(path+"/messages", answers(pending, object{"decision": "approve"})).Error(http.StatusNotFound, wire.NotFound)

		pushed := object{
			"id": "p", "agent_name": "helper", "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z",
			"messages": []object{{"id": "m", "role": "user", "content": "hi", "created_at": "2026-01-02T03:04:05Z"}},
		}
		ada.Post(push, object{"sessions": []object{pushed}}).Want(http.StatusOK)
		ask(t, ada, sessions+"/p")
		pushed["updated_at"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		require.EqualValues(t, 1, ada.Post(push, object{"sessions": []object{pushed}}).Want(http.StatusOK)["updated"])
		require.Empty(t, ada.Get(approvals).Items())
		require.NotContains(t, ada.Get(sessions).Items()[0], "waiting")
	})
}

// The events of the continued part have ids that go on: a reader of the first part gets only the
// new events, and one without an id everything.
func TestReadersOfAContinuedAnswer(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		first := send(t, ada, path, object{"message": "go", "inputs": []string{"approval"}, "onDisconnect": "continue"}).rest()
		pending := first[len(first)-2].data["pending"].([]any)
		body := answers(pending, object{"decision": "approve"})
		body["onDisconnect"] = "continue"
		second := send(t, ada, path, body).rest()
		require.Equal(t, "hub", second[0].name)
		require.NotContains(t, fmt.Sprint(second), "hub.gap")
		message := messages(ada, path)[1]["id"].(string)
		events := path + "/messages/" + message + "/events"
		lastID := first[len(first)-1].id
		require.NotEmpty(t, lastID)
		req := ada.Request(http.MethodGet, events, nil)
		req.Header.Set("Last-Event-ID", lastID)
		require.Equal(t, second, receives(t, req).rest(), "the same events with the same ids")
		all := receives(t, ada.Request(http.MethodGet, events, nil)).rest()
		require.Contains(t, fmt.Sprint(all), "I write.")
		require.Contains(t, fmt.Sprint(all), "Done.")
		require.Equal(t, "done", all[len(all)-1].name)
	})
}

// What a model writes is exactly what a person reads, whatever it contains.
func TestHostileCalls(t *testing.T) {
	content := "\x1b[2J\u202e<img src=x onerror=alert(1)>\n" + strings.Repeat("long ", 20_000)
	input, err := json.Marshal(object{"file_path": "<b>a.txt", "content": content})
	require.NoError(t, err)
	up := func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "Write", string(input))), modeltest.Stream(modeltest.Text("Done.")))
	}
	each(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		executed := pending[0].(object)["executed"].(string)
		require.Contains(t, executed, strings.Repeat("long ", 20_000))
		item := ada.Get(approvals).Items()[0]
		require.Equal(t, true, item["truncated"])
		require.Equal(t, relay.MaxExecuted, len(item["executed"].(string)))
		require.True(t, strings.HasPrefix(executed, item["executed"].(string)))
		require.Equal(t, relay.Digest(executed), item["digest"])
		full := ada.Get(approvals + "/" + idOf(pending))
		require.Equal(t, executed, full.Want(http.StatusOK)["executed"])
		require.NotContains(t, full.Text, "\x1b")
		require.Equal(t, content, full.Want(http.StatusOK)["input"].(object)["content"])
		require.Equal(t, "completed", last(send(t, ada, path, answers(pending, object{"decision": "approve"})).rest()))
		entry := s.Audit("acme")[len(s.Audit("acme"))-1]
		require.Contains(t, entry, relay.Digest(executed))
		require.Less(t, len(entry), 8<<10)
	})
}

// What a runtime says is checked: what has no id, an unknown kind or the same id is not waited for.
func TestHostileWaits(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		result := func(pending string) string {
			return `event: result` + "\n" + `data: {"type":"result","subtype":"input_required","is_error":false,"stop_reason":"input_required","usage":{},"pending":` + pending + `}` + "\n\nevent: done\ndata: {}\n\n"
		}
		ada := s.ada()
		for name, row := range map[string]struct {
			pending string
			status  string
			n       int
		}{
			"nothing":             {`[]`, "completed", 0},
			"no id":               {`[{"kind":"approval","tool_name":"a","tool_use_id":"t","input":{}}]`, "completed", 0},
			"a kind":              {`[{"id":"1","kind":"sleep","tool_name":"a","tool_use_id":"t","input":{}}]`, "completed", 0},
			"a long id":           {`[{"id":"` + strings.Repeat("i", 129) + `","kind":"approval"}]`, "completed", 0},
			"an id in the markup": {`[{"id":"<b>","kind":"approval"}]`, "completed", 0},
			"twice":               {`[{"id":"1","kind":"approval"},{"id":"1","kind":"question"}]`, "waiting", 1},
			"many":                {`[{"id":"0","kind":"approval"}` + manyWaits(100) + `]`, "waiting", 64},
			"a zero":              {`[{"id":"1","kind":"approval","tool_name":"a\u0000b","executed":"\u0000","reason":"\u0000"}]`, "waiting", 1},
		} {
			s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) { write(result(row.pending)) }))
			path := session(ada)
			events := send(t, ada, path, object{"message": "go", "inputs": []string{"approval"}}).rest()
			require.Equal(t, row.status, last(events), name)
			pending, _ := messages(ada, path)[1]["pending"].([]any)
			require.Len(t, pending, row.n, name)
			for _, p := range pending {
				require.IsType(t, object{}, p.(object)["input"], name)
			}
			ada.Get(approvals + "?page_size=100").Want(http.StatusOK)
		}
	})
}

func manyWaits(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `,{"id":"m%d","kind":"approval"}`, i)
	}
	return text.String()
}
