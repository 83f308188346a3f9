package chat_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// background returns a message with fields that continues without a client.
func background(fields object) object {
	all := maps.Clone(fields)
	all["background"] = true
	return all
}

// The response to an answer was lost. The same answer of the same user has the same result, during
// the run and after it, and another one does not count.
func TestAnAnswerThatIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, approvers := range []string{"owner", "maintainer"} {
		t.Run(approvers, func(t *testing.T) {
			each(t, nil, func(t *testing.T, s *server) {
				gate := make(chan struct{}, 1)
				s.approvers.Store(&approvers)
				s.deploy(modeltest.Start(t, modeltest.Anthropic, writes("a.txt"),
					modeltest.Stream(modeltest.Text("Do"), modeltest.Gate(gate), modeltest.Text("ne.")), modeltest.Repeat(modeltest.Stream(modeltest.Text("More.")))))
				ada, by := s.ada(), s.As("acme", "max", rbac.Maintainer)
				if approvers == "owner" {
					by = ada
				}
				path := session(ada)
				pending := ask(t, ada, path)
				one, approve := approvals+"/"+idOf(pending), object{"decision": "approve"}
				first := by.Post(one, approve).Want(http.StatusAccepted)
				before := messages(ada, path)[1]
				require.Equal(t, object{"state": "running", "runId": before["runId"]}, first)
				again := func(status string) {
					require.Equal(t, first, by.Post(one, approve).Want(http.StatusAccepted))
					by.Post(one, object{"decision": "reject"}).Error(http.StatusNotFound, wire.NotFound)
					by.Post(one, object{"decision": "approve", "input": object{"file_path": "b.txt", "content": "b"}}).Error(http.StatusNotFound, wire.NotFound)
					s.As("acme", "amy", rbac.Maintainer).Post(one, approve).Error(http.StatusNotFound, wire.NotFound)
					s.As("acme", "max", rbac.Member).Post(one, approve).Error(http.StatusNotFound, wire.NotFound)
					by.Get(one).Error(http.StatusNotFound, wire.NotFound)
					require.Empty(t, by.Get(approvals).Items())
					if approvers != "owner" {
						return
					}
					for _, body := range []object{answers(pending, approve), background(answers(pending, approve))} {
						stored := ada.Post(path+"/messages", body).Want(http.StatusOK)
						require.Equal(t, []any{status, before["id"], before["runId"]},
							[]any{stored["status"], stored["assistantMessage"].(object)["id"], stored["assistantMessage"].(object)["runId"]})
					}
					ada.Post(path+"/messages", answers(pending, object{"decision": "reject"})).Error(http.StatusConflict, wire.Conflict)
				}
				again("partial")
				gate <- struct{}{}
				after := awaits(t, ada, path, "completed")
				again("completed")
				require.Equal(t, "completed", last(say(t, ada, path, "more")))
				again("completed")
				require.Equal(t, after, messages(ada, path)[1])
				require.Len(t, blocks(after, "tool_result"), 1)
				require.Len(t, blocks(after, "answered"), 1)
				require.Equal(t, 1, strings.Count(strings.Join(s.Audit("acme"), "\n"), "agent.approve_call"))
			})
		})
	}
}

// An answer that waits again has both answers, and each of them can be sent again.
func TestAnswersOfTwoWaitsThatAreSentAgain(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		return modeltest.Start(t, modeltest.Anthropic, writes("a.txt"), modeltest.Stream(modeltest.ToolCall("t2", "Write", `{"file_path":"b.txt","content":"b"}`)),
			modeltest.Stream(modeltest.Text("Done.")))
	}
	each(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		first := ask(t, ada, path)
		events := send(t, ada, path, answers(first, object{"decision": "approve"})).rest()
		second := events[len(events)-2].data["pending"].([]any)
		require.NotEqual(t, idOf(first), idOf(second))
		again := ada.Post(path+"/messages", answers(first, object{"decision": "approve"})).Want(http.StatusOK)
		require.Equal(t, "waiting", again["assistantMessage"].(object)["status"])
		require.Equal(t, second, again["assistantMessage"].(object)["pending"])
		ran := ada.Post(approvals+"/"+idOf(first), object{"decision": "approve"}).Want(http.StatusAccepted)
		require.Equal(t, messages(ada, path)[1]["runId"], ran["runId"])
		require.Equal(t, "completed", last(send(t, ada, path, answers(second, object{"decision": "reject"})).rest()))
		for _, body := range []object{answers(first, object{"decision": "approve"}), answers(second, object{"decision": "reject"})} {
			require.Equal(t, "completed", ada.Post(path+"/messages", body).Want(http.StatusOK)["status"])
		}
		require.Equal(t, ran, ada.Post(approvals+"/"+idOf(first), object{"decision": "approve"}).Want(http.StatusAccepted))
		both := object{"answers": []object{{"id": idOf(first), "decision": "approve"}, {"id": idOf(second), "decision": "reject"}}}
		ada.Post(path+"/messages", both).Error(http.StatusConflict, wire.Conflict)
		require.Len(t, blocks(messages(ada, path)[1], "answered"), 2)
	})
}

// While the answer of another user is missing, the same answer changes nothing.
func TestAPartOfTheAnswersIsSentAgain(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		calls := modeltest.Stream(modeltest.ToolCall("t1", "Write", `{"file_path":"a.txt","content":"x"}`),
			modeltest.ToolCall("t2", "Write", `{"file_path":"b.txt","content":"x"}`), modeltest.ToolCall("t3", "open", `{}`))
		return modeltest.Start(t, modeltest.Anthropic, calls, modeltest.Stream(modeltest.Text("Done.")))
	}
	each(t, up, func(t *testing.T, s *server) {
		role := "maintainer"
		s.approvers.Store(&role)
		ada, bob := s.ada(), s.As("acme", "bob", rbac.Maintainer)
		path := session(ada)
		saved := send(t, ada, path, object{"message": "go", "inputs": []string{"approval", "client_tool"}, "clientTools": []object{{"name": "open"}}}).rest()
		pending := saved[len(saved)-2].data["pending"].([]any)
		require.Len(t, pending, 3)
		tool := answers(pending[2:], object{"output": "page 1"})
		ids := []string{idOf(pending), idOf(pending[1:])}
		for range 2 {
			require.Equal(t, object{"state": "waiting"}, bob.Post(approvals+"/"+ids[0], object{"decision": "approve"}).Want(http.StatusAccepted))
			require.Equal(t, object{"state": "waiting"}, ada.Post(path+"/messages", tool).Want(http.StatusAccepted))
			require.Len(t, messages(ada, path)[1]["pending"], 1)
			require.Len(t, bob.Get(approvals).Items(), 1)
		}
		bob.Post(approvals+"/"+ids[0], object{"decision": "reject"}).Error(http.StatusNotFound, wire.NotFound)
		ada.Post(path+"/messages", answers(pending[2:], object{"output": "page 2"})).Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, "running", bob.Post(approvals+"/"+ids[1], object{"decision": "reject"}).Want(http.StatusAccepted)["state"])
		after := awaits(t, ada, path, "completed")
		for i, decision := range []string{"approve", "reject"} {
			require.Equal(t, after["runId"], bob.Post(approvals+"/"+ids[i], object{"decision": decision}).Want(http.StatusAccepted)["runId"])
		}
		require.Equal(t, "completed", ada.Post(path+"/messages", tool).Want(http.StatusOK)["status"])
		require.Len(t, blocks(after, "answered"), 3)
		require.Len(t, blocks(after, "tool_result"), 3)
		log := strings.Join(s.Audit("acme"), "\n")
		require.Equal(t, []int{1, 1}, []int{strings.Count(log, "agent.approve_call"), strings.Count(log, "agent.reject_call")})
	})
}
