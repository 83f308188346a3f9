package chat_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const approvals = "/api/v1/approvals"

// writes is a response that writes a file, which needs an approval.
func writes(name string) modeltest.Reply {
	return modeltest.Stream(modeltest.Text("I write."), modeltest.ToolCall("t1", "Write", fmt.Sprintf(`{"file_path":%q,"content":"one\n"}`, name)))
}

// asking returns a model that writes a file, and then says that it is done.
func asking(t *testing.T) *modeltest.Upstream {
	t.Helper()
	return modeltest.Start(t, modeltest.Anthropic, writes("a.txt"), modeltest.Stream(modeltest.Text("Done.")))
}

// ask sends a message whose answer waits, and returns what it waits for.
func ask(t *testing.T, c *apitest.Client, path string) []any {
	t.Helper()
	events := send(t, c, path, object{"message": "go", "inputs": []string{"approval", "client_tool", "question"}}).rest()
	require.Equal(t, "done", events[len(events)-1].name)
	saved := events[len(events)-2].data
	require.Equal(t, "waiting", saved["status"], saved)
	require.NotEmpty(t, saved["pending"])
	return saved["pending"].([]any)
}

func idOf(pending []any) string { return pending[0].(object)["id"].(string) }

func answers(pending []any, fields object) object {
	one := object{"id": idOf(pending)}
	for name, value := range fields {
		one[name] = value
	}
	return object{"answers": []object{one}}
}

// blocks returns the blocks of a type of a message.
func blocks(m object, kind string) (all []object) {
	for _, b := range m["content"].([]any) {
		if b.(object)["type"] == kind {
			all = append(all, b.(object))
		}
	}
	return all
}

// awaits waits until the last answer of a session has a status, and returns it.
func awaits(t *testing.T, c *apitest.Client, path, status string) object {
	t.Helper()
	var last object
	require.Eventually(t, func() bool {
		all := messages(c, path)
		last = all[len(all)-1]
		return last["status"] == status
	}, time.Minute, 20*time.Millisecond, "%v", &last)
	return last
}

// An answer waits, and its owner continues it: the same message, with another run.
func TestAnAnswerWaitsAndContinues(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada, bob := s.ada(), s.As("acme", "bob", rbac.Maintainer)
		path := session(ada)
		pending := ask(t, ada, path)
		before := messages(ada, path)[1]
		require.Equal(t, "waiting", before["status"])
		require.Equal(t, pending, before["pending"])
		require.Equal(t, "I write.", before["text"])
		require.Equal(t, true, ada.Get(sessions).Items()[0]["waiting"])
		require.Equal(t, false, ada.Get(sessions).Items()[0]["answering"])

		s.sizes(s.stored()...)
		list := ada.Get(approvals).Want(http.StatusOK)
		require.EqualValues(t, 1, list["total"])
		item := list["items"].([]any)[0].(object)
		require.Equal(t, []any{idOf(pending), "approval", "helper", "ada", "Write", "owner"},
			[]any{item["id"], item["kind"], item["agentName"], item["userName"], item["toolName"], item["approvers"]})
		require.Equal(t, strings.TrimPrefix(path, sessions+"/"), item["sessionId"])
		require.Equal(t, before["id"], item["messageId"])
		require.NotContains(t, item, "truncated")
		full := ada.Get(approvals + "/" + idOf(pending)).Want(http.StatusOK)
		require.Equal(t, pending[0].(object)["executed"], full["executed"])
		require.Equal(t, object{"file_path": "a.txt", "content": "one\n"}, full["input"])
		require.Empty(t, bob.Get(approvals).Items(), "a maintainer does not approve")
		bob.Get(approvals+"/"+idOf(pending)).Error(http.StatusNotFound, wire.NotFound)
		bob.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Error(http.StatusNotFound, wire.NotFound)

		events := send(t, ada, path, answers(pending, object{"decision": "approve"})).rest()
		require.Equal(t, before["id"], events[0].data["assistantMessageId"])
		require.Equal(t, messages(ada, path)[0]["id"], events[0].data["userMessageId"])
		saved := events[len(events)-2].data
		require.Equal(t, []any{"completed", before["id"]}, []any{saved["status"], saved["messageId"]})
		require.Equal(t, usageOf(20, 10), saved["usage"], "that of both runs")
		all := messages(ada, path)
		require.Len(t, all, 2)
		after := all[1]
		require.Equal(t, saved["usage"], after["usage"])
		require.NotEqual(t, before["runId"], after["runId"])
		require.NotContains(t, after, "pending")
		require.Equal(t, "I write.\n\nDone.", after["text"])
		require.Len(t, blocks(after, "tool_use"), 1)
		require.Equal(t, false, blocks(after, "tool_result")[0]["is_error"])
		answered := blocks(after, "answered")[0]
		require.Equal(t, []any{"approve", "approval", "Write", "t1", "ada"},
			[]any{answered["decision"], answered["kind"], answered["tool_name"], answered["tool_use_id"], answered["user_name"]})
		at, err := time.Parse(time.RFC3339, answered["answered_at"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Minute)

		require.Empty(t, ada.Get(approvals).Items())
		require.NotContains(t, ada.Get(sessions).Items()[0], "waiting")
		entry := s.Audit("acme")[len(s.Audit("acme"))-1]
		for _, part := range []string{"agent.approve_call", `"tool":"Write"`, `"digest":"` + item["digest"].(string) + `"`, `a.txt`, `"owner":"ada"`} {
			require.Contains(t, entry, part)
		}
		require.Equal(t, item["digest"], relay.Digest(full["executed"].(string)))
		s.sizes(s.stored()...)
	})
}

func TestARejectionHasItsReason(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		result := ada.Post(approvals+"/"+idOf(pending), object{"decision": "reject", "reason": "Not on a Friday."}).Want(http.StatusAccepted)
		require.Equal(t, "running", result["state"])
		after := awaits(t, ada, path, "completed")
		require.Equal(t, result["runId"], after["runId"])
		require.Equal(t, "Not on a Friday.", blocks(after, "answered")[0]["reason"])
		require.Contains(t, blocks(after, "tool_result")[0]["output"], "Not on a Friday.")
		require.Equal(t, true, blocks(after, "tool_result")[0]["is_error"])
		entry := s.Audit("acme")[len(s.Audit("acme"))-1]
		require.Contains(t, entry, "agent.reject_call")
		require.Contains(t, entry, "Not on a Friday.")
	})
}

// A message in place of answers rejects what waits.
func TestAMessageRejectsWhatWaits(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		require.Equal(t, "completed", last(say(t, ada, path, "Never mind.")))
		all := messages(ada, path)
		require.Len(t, all, 4)
		require.Equal(t, "completed", all[1]["status"])
		require.NotContains(t, all[1], "pending")
		require.Equal(t, []any{"reject", "ada"}, []any{blocks(all[1], "answered")[0]["decision"], blocks(all[1], "answered")[0]["user_name"]})
		require.Empty(t, blocks(all[3], "answered"))
		require.Equal(t, "Done.", all[3]["text"])
		entry := s.Audit("acme")[len(s.Audit("acme"))-1]
		for _, part := range []string{"agent.reject_call", `"tool":"Write"`, `a.txt`, `"reason":"The user wrote a message instead."`} {
			require.Contains(t, entry, part)
		}
		s.sizes(s.stored()...)
		require.Empty(t, ada.Get(approvals).Items())
		require.NotContains(t, ada.Get(sessions).Items()[0], "waiting")
		ada.Post(path+"/messages", answers(pending, object{"decision": "approve"})).Error(http.StatusConflict, wire.Conflict)
	})
}

func TestInvalidInputsAndAnswers(t *testing.T) {
	with(t, asking, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		tool := object{"name": "open", "inputSchema": object{}}
		tools := func(change string, value any) object {
			one := object{"name": "open", "inputSchema": object{}}
			one[change] = value
			return object{"message": "a", "inputs": []string{"client_tool"}, "clientTools": []object{one}}
		}
		many := make([]object, 65)
		for i := range many {
			many[i] = object{"name": fmt.Sprint("t", i)}
		}
		for name, row := range map[string]struct {
			body  object
			field string
		}{
			"a kind":                {object{"message": "a", "inputs": []string{"sleep"}}, "inputs"},
			"a kind twice":          {object{"message": "a", "inputs": []string{"approval", "approval"}}, "inputs"},
			"tools without a kind":  {object{"message": "a", "clientTools": []object{tool}}, "clientTools"},
			"the name of a server":  {tools("name", "MCP__x"), "clientTools[0].name"},
			"a long name":           {tools("name", strings.Repeat("n", 65)), "clientTools[0].name"},
			"a name with a dot":     {tools("name", "a.b"), "clientTools[0].name"},
			"a schema":              {tools("inputSchema", []any{}), "clientTools[0].inputSchema"},
			"too many bytes":        {tools("description", strings.Repeat("d", 256<<10)), "clientTools"},
			"too many tools":        {object{"message": "a", "inputs": []string{"client_tool"}, "clientTools": many}, "clientTools"},
			"names that only fold":  {object{"message": "a", "inputs": []string{"client_tool"}, "clientTools": []object{tool, {"name": "OPEN"}}}, "clientTools[1].name"},
			"a message and answers": {object{"message": "a", "answers": []object{{"id": "x", "decision": "approve"}}}, "message"},
			"an id twice":           {object{"answers": []object{{"id": "x", "decision": "approve"}, {"id": "x", "decision": "approve"}}}, "answers[1].id"},
			"a long reason":         {object{"answers": []object{{"id": "x", "decision": "reject", "reason": strings.Repeat("r", 2001)}}}, "answers[0].reason"},
		} {
			e := ada.Post(path+"/messages", row.body).Error(http.StatusBadRequest, wire.ValidationFailed)
			require.Contains(t, e["data"].(object)["fields"], row.field, name)
		}
		require.Empty(t, messages(ada, path))
		ada.Post(path+"/messages", object{"answers": []object{{"id": "x", "decision": "approve"}}}).Error(http.StatusConflict, wire.Conflict)

		pending := ask(t, ada, path)
		for name, row := range map[string]struct {
			answer object
			field  string
		}{
			"nothing":                 {object{}, "answers[0].decision"},
			"another decision":        {object{"decision": "maybe"}, "answers[0].decision"},
			"an output":               {object{"decision": "approve", "output": "x"}, "answers[0].output"},
			"an action":               {object{"action": "accept"}, "answers[0].action"},
			"an error":                {object{"decision": "approve", "isError": true}, "answers[0].isError"},
			"a reason of an approval": {object{"decision": "approve", "reason": "r"}, "answers[0].reason"},
			"an input of a rejection": {object{"decision": "reject", "input": object{}}, "answers[0].input"},
			"an input that is a list": {object{"decision": "approve", "input": []any{}}, "answers[0].input"},
			"content":                 {object{"decision": "approve", "content": object{}}, "answers[0].content"},
		} {
			e := ada.Post(path+"/messages", answers(pending, row.answer)).Error(http.StatusBadRequest, wire.ValidationFailed)
			require.Contains(t, e["data"].(object)["fields"], row.field, name)
		}
		ada.Post(path+"/messages", object{"answers": []object{{"id": "x", "decision": "approve"}}}).Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, "waiting", messages(ada, path)[1]["status"])
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "_call")
		require.Equal(t, "completed", last(send(t, ada, path, answers(pending, object{"decision": "approve"})).rest()))
	})
}

// Of two answers at the same time, one counts, and the call runs once.
func TestTwoAnswersAtTheSameTime(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		role := "maintainer"
		s.approvers.Store(&role)
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		var all sync.WaitGroup
		statuses := make([]int, 8)
		for i := range statuses {
			all.Go(func() {
				c := s.As("acme", fmt.Sprint("max", i), rbac.Maintainer)
				statuses[i] = c.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Status
			})
		}
		all.Wait()
		counts := map[int]int{}
		for _, status := range statuses {
			counts[status]++
		}
		require.Equal(t, 1, counts[http.StatusAccepted], counts)
		require.Equal(t, len(statuses)-1, counts[http.StatusConflict]+counts[http.StatusNotFound], counts)
		after := awaits(t, ada, path, "completed")
		require.Len(t, blocks(after, "tool_result"), 1)
		require.Len(t, blocks(after, "answered"), 1)
		require.Equal(t, 1, strings.Count(strings.Join(s.Audit("acme"), "\n"), "agent.approve_call"))
	})
}

// With a role, the owner sees that the chat waits and cannot answer, and a message still can.
func TestARoleApproves(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		role := "admin"
		s.approvers.Store(&role)
		root := s.As("acme", "root", rbac.Admin)
		path := session(root) // with the role, and the owner
		pending := ask(t, root, path)
		body := answers(pending, object{"decision": "approve"})
		root.Post(path+"/messages", body).Error(http.StatusForbidden, wire.Forbidden)
		root.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Error(http.StatusForbidden, wire.Forbidden)
		require.Empty(t, root.Get(approvals).Items())
		require.Equal(t, "admin", root.Get(approvals + "/" + idOf(pending)).Want(http.StatusOK)["approvers"])

		bob := s.As("acme", "bob", rbac.Maintainer)
		require.Empty(t, bob.Get(approvals).Items())
		bob.Get(approvals+"/"+idOf(pending)).Error(http.StatusNotFound, wire.NotFound)
		bob.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Error(http.StatusNotFound, wire.NotFound)
		other := s.As("zeta", "eve", rbac.Admin)
		require.Empty(t, other.Get(approvals).Items())
		other.Get(approvals+"/"+idOf(pending)).Error(http.StatusNotFound, wire.NotFound)
		other.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Error(http.StatusNotFound, wire.NotFound)
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "agent.approve_call")

		amy := s.As("acme", "amy", rbac.Admin)
		require.Len(t, amy.Get(approvals).Items(), 1)
		role = "maintainer" // it has changed since the list was read, which the agent tells the rows
		require.NoError(t, s.changeApprovers(t, "helper", role))
		require.Equal(t, "maintainer", bob.Get(approvals).Items()[0]["approvers"])
		bob.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Want(http.StatusAccepted)
		after := awaits(t, root, path, "completed")
		require.Equal(t, "bob", blocks(after, "answered")[0]["user_name"])
		require.Contains(t, s.Audit("acme")[len(s.Audit("acme"))-1], "agent.approve_call")
	})
}
