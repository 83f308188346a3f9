package hub_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const waits = "/api/v1/approvals"

func init() {
	for _, field := range []string{"schema", "url", "server"} {
		const reason = "it takes an MCP server that asks: console.TestQuestionsInTheChat"
		unseenChats["GET /api/v1/approvals 200 items "+field] = reason
		unseenChats["GET /api/v1/approvals/{id} 200 "+field] = reason
		unseenChats["GET /api/v1/agents/{name}/chat/sessions/{id}/messages 200 items pending "+field] = reason
		unseenChats["GET /api/v1/admin/chat/sessions/{id}/messages 200 items pending "+field] = reason
	}
	for _, of := range []string{"agents/{name}", "admin"} {
		unseenChats["GET /api/v1/"+of+"/chat/sessions/{id}/messages/{message}/events 204"] = "chat.TestAReaderContinuesAfterEachEvent"
	}
	unseenChats["GET /api/v1/approvals 200 items input"] = "only of one"
	unseenChats["GET /api/v1/approvals 200 items truncated"] = "it takes 4 KiB: chat.TestHostileCalls"
	unseenChats["GET /api/v1/approvals/{id} 200 truncated"] = "only of a list"
	unseenChats["POST /api/v1/agents/{name}/chat/sessions 201 waiting"] = "a new session has no answer"
}

// approvals answers what waits in chats of an agent whose model calls a tool each time.
func (c *contract) approvals(admin string) {
	calls := modeltest.Stream(modeltest.ToolCall("t1", "Write", `{"file_path":"a.txt","content":"one"}`), modeltest.ToolCall("t2", "open", `{}`))
	up := modeltest.Start(c.t, modeltest.Anthropic, modeltest.Repeat(calls))
	provider := c.ok(201, "POST", providers, admin, `{"name":"Model","protocol":"anthropic","baseUrl":"`+up.URL+`","apiKey":"k"}`)["id"].(string)
	agent := `{"name":"asker","providerId":"` + provider + `","model":"m"`
	c.ok(201, "POST", agents, admin, agent+`}`)
	owner := c.newcomer(admin, "cleo", "member")
	c.newcomer(admin, "mia", "maintainer")
	cleo, _ := c.enter("cleo")
	mia, _ := c.enter("mia")
	c.ok(202, "POST", agents+"/asker/deploy", admin, "")
	require.Eventually(c.t, func() bool { return c.ok(200, "GET", agents+"/asker/deploy", admin, "")["state"] == "running" }, time.Minute, 20*time.Millisecond)

	const chats = "/api/v1/agents/asker/chat/sessions"
	path := chats + "/" + c.ok(201, "POST", chats, cleo, "")["id"].(string)
	c.faulty("POST", path+"/messages", cleo, `{"message":"a","inputs":["sleep"]}`, `{"message":"a","answers":[{"id":"x"}]}`,
		`{"message":"a","inputs":["client_tool"],"clientTools":[{"name":"mcp__a"}]}`)
	// ask returns the ids of what waits.
	ask := func() []string {
		text := c.send("POST", path+"/messages", cleo, `{"message":"go","inputs":["approval","client_tool"],"clientTools":[{"name":"open","inputSchema":null}]}`).text
		require.Contains(c.t, c.events("POST /api/v1/agents/{name}/chat/sessions/{id}/messages", text), "hub.saved")
		list := c.ok(200, "GET", path+"/messages?page_size=100", cleo, "")["items"].([]any)
		var ids []string
		for _, p := range list[len(list)-1].(map[string]any)["pending"].([]any) {
			ids = append(ids, p.(map[string]any)["id"].(string))
		}
		require.Len(c.t, ids, 2)
		return ids
	}
	ids := ask()
	require.Equal(c.t, true, c.ok(200, "GET", chats, cleo, "")["items"].([]any)[0].(map[string]any)["waiting"])
	for _, at := range []string{chats, "/api/v1/admin/chat/sessions"} {
		c.ok(200, "GET", at, cleo, "")
	}
	session := "/api/v1/admin/chat/sessions" + path[len(chats):]
	c.ok(200, "GET", session, admin, "")
	c.ok(200, "GET", session+"/messages", admin, "")
	c.unpaged(waits, cleo)
	c.ok(200, "GET", waits+"/"+ids[0], cleo, "")
	c.reject(404, wire.NotFound, "GET", waits+"/"+ids[0], mia, "")
	c.reject(404, wire.NotFound, "POST", waits+"/"+ids[0], mia, `{"decision":"approve"}`)
	c.faulty("POST", waits+"/"+ids[0], cleo, `{}`, `{"decision":"maybe"}`)
	require.Equal(c.t, "waiting", c.ok(202, "POST", waits+"/"+ids[0], cleo, `{"decision":"reject","reason":"Not now."}`)["state"])
	c.faulty("POST", path+"/messages", cleo, `{"answers":[{"id":"`+ids[1]+`"}]}`)
	c.reject(409, wire.Conflict, "POST", path+"/messages", cleo, `{"answers":[{"id":"`+ids[0]+`","decision":"approve"}]}`)
	c.failing.Store(true)
	c.reject(502, code.UpstreamFailed, "POST", path+"/messages", cleo, `{"answers":[{"id":"`+ids[1]+`","output":"opened"}]}`)
	c.failing.Store(false)
	text := c.send("POST", path+"/messages", cleo, `{"answers":[{"id":"`+ids[1]+`","output":"opened"}]}`).text
	require.Contains(c.t, c.events("POST /api/v1/agents/{name}/chat/sessions/{id}/messages", text), "hub.saved")

	c.ok(200, "PUT", agents+"/asker", admin, agent+`,"approvers":"maintainer"}`)
	ids = ask()
	c.reject(403, wire.Forbidden, "POST", waits+"/"+ids[0], cleo, `{"decision":"approve"}`)
	require.Equal(c.t, "waiting", c.ok(202, "POST", path+"/messages", cleo, `{"answers":[{"id":"`+ids[1]+`","output":"no","isError":true}]}`)["state"])
	require.Len(c.t, c.ok(200, "GET", waits, mia, "")["items"], 1)
	c.failing.Store(true)
	c.reject(502, code.UpstreamFailed, "POST", waits+"/"+ids[0], mia, `{"decision":"approve","input":{"file_path":"b.txt","content":"two"}}`)
	c.failing.Store(false)
	c.ok(200, "PUT", "/api/v1/admin/budgets/agent/asker", admin, `{"period":"day","unit":"tokens","hard":1,"reserve":1}`)
	c.reject(429, wire.RateLimited, "POST", waits+"/"+ids[0], mia, `{"decision":"approve"}`)
	c.ok(204, "DELETE", "/api/v1/admin/budgets/agent/asker", admin, "")
	require.Equal(c.t, "running", c.ok(202, "POST", waits+"/"+ids[0], mia, `{"decision":"approve","input":{"file_path":"b.txt","content":"two"}}`)["state"])
	require.Eventually(c.t, func() bool {
		list := c.ok(200, "GET", waits, mia, "")["items"].([]any)
		return len(list) == 1 && list[0].(map[string]any)["id"] != ids[0] // the model asks again
	}, time.Minute, 20*time.Millisecond)
	id := c.ok(200, "GET", waits, mia, "")["items"].([]any)[0].(map[string]any)["id"].(string)
	c.ok(200, "PATCH", owner, admin, `{"status":"disabled"}`)
	c.reject(409, wire.Conflict, "POST", waits+"/"+id, mia, `{"decision":"approve"}`)
	c.send("DELETE", agents+"/asker/deploy", admin, "").want(204)
	c.reject(409, code.AgentNotDeployed, "POST", waits+"/"+id, mia, `{"decision":"approve"}`)
}
