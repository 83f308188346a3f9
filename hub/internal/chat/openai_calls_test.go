package chat_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// opens returns a model that calls a client tool, and then says that it is done.
func opens(t *testing.T) *modeltest.Upstream {
	t.Helper()
	return modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "open", `{"page":1}`)), modeltest.Stream(modeltest.Text("Done.")))
}

// A client tool waits, also in a session that is not stored, whose end deletes it. The call of
// another user is unknown: its result is a text of a new conversation.
func TestClientToolsOfOpenAI(t *testing.T) {
	each(t, opens, func(t *testing.T, s *server) {
		ada := s.ada()
		body := plus(plus(asked("go"), "store", false), "tools", []any{object{"type": "function", "function": object{"name": "open"}}})
		res := ada.Post(completions, body).Want(http.StatusOK)["choices"].([]any)[0].(object)
		require.Equal(t, "tool_calls", res["finish_reason"])
		call := res["message"].(object)
		id := call["tool_calls"].([]any)[0].(object)["id"]
		require.Equal(t, 1, s.number(`SELECT COUNT(*) FROM chat_sessions WHERE ephemeral AND waiting`))
		require.Empty(t, listed(ada))
		body["messages"] = append(body["messages"].([]any), call, object{"role": "tool", "tool_call_id": id, "content": "page one"})
		require.Equal(t, "Done.", contentOf(ada.Post(completions, body).Want(http.StatusOK)))
		require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_sessions`))

		s.deploy(opens(t))
		failsAs(t, s.As("acme", "bob", rbac.Member).Post(completions, plus(body, "model", "none")), http.StatusNotFound)
	})
}

// A call that needs an approval is one of the hub too. The decision continues the response.
func TestApprovalsOfOpenAI(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		first := ada.Post(responsesPath, object{"model": "helper", "input": "go"}).Want(http.StatusOK)
		var request string
		for _, item := range first["output"].([]any) {
			if item.(object)["type"] == "mcp_approval_request" {
				request = item.(object)["id"].(string)
			}
		}
		require.NotEmpty(t, request, first)
		require.Len(t, ada.Get(approvals).Items(), 1)
		decision := []any{object{"type": "mcp_approval_response", "approval_request_id": request, "approve": true}}
		next := object{"model": "helper", "input": decision, "previous_response_id": first["id"]}
		failsAs(t, s.As("acme", "bob", rbac.Admin).Post(responsesPath, next), http.StatusBadRequest)
		second := ada.Post(responsesPath, next).Want(http.StatusOK)
		require.Contains(t, outputOf(second), "Done.")
		require.Empty(t, ada.Get(approvals).Items())
		require.Len(t, listed(ada), 1, "the session continues")
	})
}

// A background response continues without its request, and its owner cancels it.
func TestBackgroundOfOpenAI(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.deploy(endless(t))
	ada, bob := s.ada(), s.As("acme", "bob", rbac.Admin)
	one := ada.Post(responsesPath, object{"model": "helper", "input": "go", "background": true}).Want(http.StatusOK)
	require.Equal(t, "in_progress", one["status"])
	path := responsesPath + "/" + one["id"].(string)
	require.Equal(t, "in_progress", ada.Get(path).Want(http.StatusOK)["status"])
	failsAs(t, bob.Post(path+"/cancel", nil), http.StatusNotFound)
	failsAs(t, bob.Get(path+"?stream=true"), http.StatusNotFound)
	ada.Post(path+"/cancel", nil).Want(http.StatusOK)
	require.Eventually(t, func() bool { return ada.Get(path).Want(http.StatusOK)["status"] == "cancelled" }, patience, 20*time.Millisecond)
}
