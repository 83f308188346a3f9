package hub_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/openapitest"
	"github.com/seed93082962/agenthost/sse"
)

const (
	pushKey   = "a push key of at least 32 characters"
	chats     = "/api/v1/agents/chatty/chat/sessions"
	allChats  = "/api/v1/admin/chat/sessions"
	runs      = "/api/v1/admin/runs"
	pushChats = "/api/v1/chat/push"
)

// usage reads the usage of the chats before.
func (c *contract) usage(admin string) {
	const report = "/api/v1/admin/usage"
	c.unpaged(report, admin)
	require.NotEmpty(c.t, c.ok(200, "GET", report+"?by=day,agent,user,model&from=&to=&agent=chatty&user=&model=demo&page_size=1", admin, "")["items"])
	require.Equal(c.t, 200, c.send("GET", report+"/export?by=model,day", admin, "").status)
	for _, query := range []string{"from=yesterday", "to=1", "by=week", "by=day,", "agent=" + strings.Repeat("a", 1001), "user=%zz"} {
		c.reject(400, wire.InvalidRequest, "GET", report+"?"+query, admin, "")
		c.reject(400, wire.InvalidRequest, "GET", report+"/export?"+query, admin, "")
	}
}

// budgets sets and exceeds budgets.
func (c *contract) budgets(path, token, admin string) {
	const budgets = "/api/v1/admin/budgets"
	of := budgets + "/agent/chatty"
	c.faulty("PUT", of, admin, `{}`, `{"period":"week","unit":"tokens","hard":1}`, `{"period":"day","unit":"words","hard":1}`, `{"period":"day","unit":"cost","hard":0}`,
		`{"period":"day","unit":"cost","soft":null,"hard":-1}`)
	c.reject(400, wire.InvalidRequest, "PUT", of, admin, `{"period":"day","unit":"tokens","hard":"1"}`)
	for _, method := range []string{"GET", "DELETE"} {
		c.reject(404, wire.NotFound, method, of, admin, "")
	}
	c.reject(404, wire.NotFound, "PUT", budgets+"/agent/nobody", admin, `{"period":"day","unit":"cost","hard":1}`)
	c.reject(404, wire.NotFound, "PUT", budgets+"/team/chatty", admin, `{"period":"day","unit":"cost","hard":1}`)
	c.ok(200, "PUT", of, admin, `{"period":"month","unit":"tokens","soft":1,"hard":1000000,"reserve":null}`)
	require.Contains(c.t, c.send("POST", path+"/messages", token, `{"message":"hello"}`).text, `"budgets":[{"kind":"agent"`)
	c.ok(200, "PUT", of, admin, `{"period":"day","unit":"tokens","soft":1,"hard":1,"reserve":1}`)
	c.reject(429, wire.RateLimited, "POST", path+"/messages", token, `{"message":"hello"}`)
	c.ok(200, "GET", of, admin, "")
	c.unpaged(budgets, admin)
	c.ok(204, "DELETE", of, admin, "")
}

// unseenChats are further rows of unseen.
var unseenChats = map[string]string{
	"GET /api/v1/agents/{name}/chat/sessions/{id}/transcript 200 items kept":    "it takes a conversation that fills the context: sessiontest, transcript",
	"GET /api/v1/agents/{name}/chat/sessions/{id}/transcript 200 items summary": "it takes a conversation that fills the context: sessiontest, transcript",

	"GET /api/v1/agents/{name}/chat/sessions/{id}/transcript 200 items aigcNotice": "it takes a call of a tool: chat, TestLabelsOfTranscripts",
	"GET /api/v1/admin/chat/sessions/{id}/transcript 200 items aigcNotice":         "it takes a call of a tool: chat, TestLabelsOfTranscripts",

	"GET /api/v1/admin/chat/sessions/{id}/transcript 200 items kept":    "it takes a conversation that fills the context: sessiontest, transcript",
	"GET /api/v1/admin/chat/sessions/{id}/transcript 200 items summary": "it takes a conversation that fills the context: sessiontest, transcript",

	"POST /api/v1/agents/{name}/chat/uploads 409":                 "it takes 512 MiB: chat.TestFilesOfAUserAreBounded",
	"POST /api/v1/agents/{name}/chat/uploads 400 invalid_request": "the body has to end early",

	"GET /api/v1/agents/{name}/chat/sessions/{id}/transcript 200 partial": "it takes several replicas: chat.TestReplicasWithPartsOfAConversation",
	"GET /api/v1/admin/chat/sessions/{id}/transcript 200 partial":         "it takes several replicas: chat.TestReplicasWithPartsOfAConversation",

	"GET /api/v1/agents/{name}/chat/sessions/{id}/messages 200 items usage reasoning_tokens": "the demo model has none: chat.TestTheTokensOfModels",
	"GET /api/v1/admin/chat/sessions/{id}/messages 200 items usage reasoning_tokens":         "the demo model has none: chat.TestTheTokensOfModels",
}

func (c *contract) chats(admin string) {
	c.ok(201, "POST", agents, admin, `{"name":"chatty","providerId":"demo","model":"demo"}`)
	c.newcomer(admin, "cleo", "member")
	cleo, _ := c.enter("cleo")
	path := chats + "/" + c.ok(201, "POST", chats, cleo, `{"title":null}`)["id"].(string)
	c.reject(404, wire.NotFound, "POST", "/api/v1/agents/nobody/chat/sessions", cleo, "")
	c.reject(404, wire.NotFound, "GET", "/api/v1/agents/nobody/chat/sessions", cleo, "")
	c.faulty("POST", chats, cleo, `{"title":"`+strings.Repeat("t", 201)+`"}`, `{"title":"a\nb"}`)
	c.unpaged(chats, cleo)
	c.reject(409, code.AgentNotDeployed, "POST", path+"/messages", cleo, `{"message":"hello"}`)
	c.reject(409, wire.Conflict, "POST", path+"/cancel", cleo, "")

	c.ok(202, "POST", agents+"/chatty/deploy", admin, "")
	require.Eventually(c.t, func() bool { return c.ok(200, "GET", agents+"/chatty/deploy", admin, "")["state"] == "running" }, time.Minute, 20*time.Millisecond)
	c.failing.Store(true)
	c.reject(502, code.UpstreamFailed, "POST", path+"/messages", cleo, `{"message":"hello"}`)
	c.failing.Store(false)
	const config = "/api/v1/admin/aigc/config"
	c.ok(200, "PUT", config, admin, `{"enabled":true,"companyName":"Example","contentProducer":"00119144030071526726XG10000","explicit":{"mode":"append"}}`)
	const message = `{"message":"hello","clientMessageId":"1"}`
	text := c.send("POST", path+"/messages", cleo, message).text
	require.Contains(c.t, text, `"type":"hub.notice","position":"append"`)
	require.Contains(c.t, text, `{"type":"hub.saved"`)
	kinds := c.events("POST /api/v1/agents/{name}/chat/sessions/{id}/messages", text)
	require.Equal(c.t, "hub", kinds[0])
	require.Equal(c.t, []any{"result", "hub.notice", "hub.saved", "done"}, kinds[len(kinds)-4:])
	c.ok(204, "DELETE", config, admin, "")
	again := c.ok(200, "POST", path+"/messages", cleo, message)
	c.followed(path, again["assistantMessage"].(map[string]any)["id"].(string), cleo, admin)
	for _, name := range []string{"userMessage", "assistantMessage"} {
		require.NoError(c.t, c.doc.Fits("ChatMessage", again[name]))
	}
	c.faulty("POST", path+"/messages", cleo, `{}`, `{"message":"a","onDisconnect":"stop"}`, `{"message":" "}`, `{"message":"a","clientMessageId":"`+strings.Repeat("c", 129)+`"}`)
	c.attachedFiles(path, cleo, admin)
	c.budgets(path, cleo, admin)
	c.cancelledChat(path, cleo, admin)
	for _, row := range [][2]string{{path, cleo}, {strings.Replace(path, chats, allChats, 1), admin}} {
		transcript, token := row[0]+"/transcript", row[1]
		c.unpagedSize(transcript, token)
		next, _ := c.ok(200, "GET", transcript+"?page_size=1", token, "")["next"].(string)
		c.ok(200, "GET", transcript+"?cursor="+next, token, "")
		for _, query := range []string{"page=2", "cursor=1", "cursor=1-00000000", "cursor=x"} {
			c.reject(400, wire.InvalidRequest, "GET", transcript+"?"+query, token, "")
		}
		c.failing.Store(true)
		c.reject(502, code.UpstreamFailed, "GET", transcript, token, "")
		c.failing.Store(false)
	}
	c.unpaged(path+"/messages", cleo)
	require.Equal(c.t, "1", c.ok(200, "GET", path+"/messages?page_size=1", cleo, "")["next"])
	c.ok(200, "GET", path+"/messages?cursor=1", cleo, "")
	c.ok(200, "GET", strings.Replace(path, chats, allChats, 1)+"/messages?page_size=1&cursor=", admin, "")
	c.ok(200, "GET", strings.Replace(path, chats, allChats, 1)+"/messages", admin, "")
	for _, row := range []struct{ method, path, body string }{
		{"GET", chats + "/0/messages", ""}, {"POST", chats + "/0/messages", message}, {"POST", chats + "/0/cancel", ""}, {"DELETE", chats + "/0", ""},
		{"GET", allChats + "/0", ""}, {"GET", allChats + "/0/messages", ""}, {"DELETE", allChats + "/0", ""},
		{"GET", chats + "/0/transcript", ""}, {"GET", allChats + "/0/transcript", ""},
		{"GET", chats + "/0/uploads/0", ""}, {"GET", allChats + "/0/uploads/0", ""}, {"POST", "/api/v1/agents/nobody/chat/uploads", "text"},
	} {
		c.reject(404, wire.NotFound, row.method, row.path, cleo, row.body)
	}
	c.pushedChats(admin, cleo)
	c.usage(admin)
	c.send("DELETE", agents+"/chatty/deploy", admin, "").want(204)
	c.reject(409, code.AgentNotDeployed, "GET", path+"/transcript", cleo, "")
	c.reject(409, code.AgentNotDeployed, "GET", strings.Replace(path, chats, allChats, 1)+"/transcript", admin, "")
	c.ok(204, "DELETE", path, cleo, "")
}

// attachedFiles sends messages with files, and reads those.
func (c *contract) attachedFiles(path, token, admin string) {
	c.t.Helper()
	const uploads = "/api/v1/agents/chatty/chat/uploads"
	id := c.send("POST", uploads, token, "a text", "Content-Type", "text/markdown").want(201)["id"].(string)
	c.reject(400, wire.ValidationFailed, "POST", uploads, token, "a\x00b", "Content-Type", "")
	c.reject(413, code.PayloadTooLarge, "POST", uploads, token, strings.Repeat("x", 10<<20+1), "Content-Type", "text/plain")
	body := `{"message":null,"content":[{"type":"text","text":"Read this."},{"type":"file","name":"notes.md","uploadId":"` + id + `","data":null},
		{"type":"image","mediaType":"image/gif","data":"R0lGODlh"}],"answers":null}`
	require.Contains(c.t, c.send("POST", path+"/messages", token, body).text, `"status":"completed"`)
	for _, row := range [][2]string{{path, token}, {strings.Replace(path, chats, allChats, 1), admin}} {
		file := row[0] + "/uploads/" + id
		res := c.send("GET", file, row[1], "")
		require.Equal(c.t, "a text", res.text)
		require.Equal(c.t, 304, c.send("GET", file, row[1], "", "If-None-Match", res.header.Get("Etag")).status)
		require.Equal(c.t, "tex", c.send("GET", file, row[1], "", "Range", "bytes=2-4").text)
		c.reject(412, wire.PreconditionFailed, "GET", file, row[1], "", "If-Match", `"other"`)
		c.reject(416, wire.InvalidRequest, "GET", file, row[1], "", "Range", "bytes=9999-")
		c.reject(404, wire.NotFound, "GET", row[0]+"/uploads/"+unknownID, row[1], "")
	}
	c.faulty("POST", path+"/messages", token, `{"content":[]}`, `{"content":[{"type":"audio","data":"AAAA"}]}`, `{"message":"a","content":[`+strings.Repeat(`{"type":"text","text":"x"},`, 64)+`{"type":"text","text":"x"}]}`)
	c.reject(400, wire.InvalidRequest, "POST", path+"/messages", token, `{"content":[{"type":"image","data":1}]}`)
}

// followed reads and cancels answers that continue, of which the first one has ended.
func (c *contract) followed(path, answer, token, admin string) {
	c.t.Helper()
	of := strings.Replace(path, chats, allChats, 1) + "/messages/" + answer
	require.Contains(c.t, c.send("GET", path+"/messages/"+answer+"/events", token, "").text, `"type":"assistant"`)
	ids := c.ok(202, "POST", path+"/messages", token, `{"message":"`+strings.Repeat("a long message ", 60)+`","background":true,"onDisconnect":"continue"}`)
	own := "/messages/" + ids["assistantMessageId"].(string)
	c.ok(202, "POST", path+own+"/cancel", token, "")
	require.Contains(c.t, c.events("GET /api/v1/agents/{name}/chat/sessions/{id}/messages/{message}/events", c.send("GET", path+own+"/events", token, "").text), "done")
	c.reject(409, wire.Conflict, "POST", path+own+"/cancel", token, "")
	ids = c.ok(202, "POST", path+"/messages", token, `{"message":"`+strings.Repeat("a long message ", 60)+`","background":true,"onDisconnect":null}`)
	own = strings.Replace(path, chats, allChats, 1) + "/messages/" + ids["assistantMessageId"].(string)
	c.ok(202, "POST", own+"/cancel", admin, "")
	kinds := c.events("GET /api/v1/admin/chat/sessions/{id}/messages/{message}/events", c.send("GET", own+"/events", admin, "", "Last-Event-ID", "x").text)
	require.Equal(c.t, "hub.gap", kinds[0])
	c.reject(409, wire.Conflict, "POST", own+"/cancel", admin, "")
	for _, path := range []string{path + "/messages/" + unknownID, strings.Replace(path, chats, allChats, 1) + "/messages/" + unknownID} {
		c.reject(404, wire.NotFound, "GET", path+"/events", admin, "")
		c.reject(404, wire.NotFound, "POST", path+"/cancel", admin, "")
	}
	c.reject(400, wire.InvalidRequest, "GET", of+"/events?user=%zz", admin, "")
	c.reject(400, wire.InvalidRequest, "POST", of+"/cancel?user=%zz", admin, "")
}

// events compares the events of an answer with their schemas, those of the runtime with its
// document. It returns their types, or names without one.
func (c *contract) events(operation, text string) []any {
	c.t.Helper()
	schemas, ok := c.doc.All()[operation].Responses.Status(200).Value.Content["text/event-stream"].Extensions["x-events"].(map[string]any)
	require.True(c.t, ok, "the document describes the events")
	runtime, err := openapitest.Load(openapitest.Config{File: "../runtime/openapi.yaml"})
	require.NoError(c.t, err)
	var kinds []any
	for event, err := range sse.NewDecoder(strings.NewReader(text)).Events() {
		require.NoError(c.t, err)
		ref, ok := schemas[event.Type].(string)
		require.True(c.t, ok, "the document does not have the event %s", event.Type)
		doc := c.doc
		if own, isRuntime := strings.CutPrefix(ref, "runtime/openapi.yaml"); isRuntime {
			doc, ref = runtime, own
		}
		var data map[string]any
		require.NoError(c.t, json.Unmarshal(event.Data, &data))
		require.NoError(c.t, doc.Fits(ref, data), "%s", event.Data)
		kinds = append(kinds, cmp.Or(data["type"], any(event.Type)))
	}
	for name, ref := range schemas { // also of events that did not occur
		doc := c.doc
		own, isRuntime := strings.CutPrefix(ref.(string), "runtime/openapi.yaml")
		if isRuntime {
			doc = runtime
		}
		require.NotNil(c.t, doc.Schema(own), name)
	}
	return kinds
}

// cancelledChat cancels two answers whose clients read only their beginnings. The demo model takes
// longer than that for a long answer.
func (c *contract) cancelledChat(path, token, admin string) {
	body := `{"message":"` + strings.Repeat("a long message ", 60) + `"}`
	begin := func() (end func()) {
		ctx, stop := context.WithCancel(c.t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path+"/messages", strings.NewReader(body))
		require.NoError(c.t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := c.client.Do(req)
		require.NoError(c.t, err)
		_, err = bufio.NewReader(res.Body).ReadString('\n')
		require.NoError(c.t, err)
		return func() { stop(); _ = res.Body.Close() }
	}
	end := begin()
	defer end()
	list := c.ok(200, "GET", runs, admin, "")
	require.EqualValues(c.t, 1, list["total"])
	run := runs + "/" + list["items"].([]any)[0].(map[string]any)["runId"].(string) + "/cancel"
	c.ok(202, "POST", run, admin, "")
	require.Eventually(c.t, func() bool { return c.send("POST", run, admin, "").status == 404 }, time.Minute, 20*time.Millisecond)
	c.reject(404, wire.NotFound, "POST", run, admin, "")
	c.unpaged(runs, admin)

	end = begin()
	defer end()
	c.reject(409, wire.Conflict, "POST", path+"/messages", token, `{"message":"another"}`)
	c.ok(202, "POST", path+"/cancel", token, "")
}

func (c *contract) pushedChats(admin, member string) {
	body := func(id, more string) string {
		return `{"sessions":[{"id":"` + id + `","agent_name":"chatty","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"` + more + `}]}`
	}
	c.ok(200, "POST", pushChats, admin, body("p", `,"messages":[{"id":"m","role":"user","content":"a","created_at":"2026-01-02T03:04:05Z","model":null}]`))
	c.ok(200, "POST", pushChats, member, body("p", `,"messages":[]`))
	require.EqualValues(c.t, 1, c.ok(200, "POST", pushChats, member, body("", ""))["failed"])
	c.send("POST", pushChats, "", body("p", `,"user_name":"bot"`), "X-Chat-Push-Key", pushKey).want(200)
	c.reject(401, wire.Unauthenticated, "POST", pushChats, "", body("p", ""), "X-Chat-Push-Key", "wrong")
	c.reject(403, wire.Forbidden, "POST", pushChats, member, body("p", `,"user_name":"ada"`))
	c.faulty("POST", pushChats, member, `{}`, `{"sessions":[`+strings.Repeat(`{},`, 50)+`{}]}`)
	c.unpaged(allChats, admin)
	for _, query := range []string{"agent=&source=&user=&from=&to=", "agent=chatty&source=push&user=bo&from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00%2B08:00"} {
		c.ok(200, "GET", allChats+"?"+query, admin, "")
	}
	for _, query := range []string{"source=mail", "from=yesterday", "to=1", "agent=" + strings.Repeat("a", 201), "user=%zz"} {
		c.reject(400, wire.InvalidRequest, "GET", allChats+"?"+query, admin, "")
	}
	one := allChats + "/p"
	for _, method := range []string{"GET", "DELETE"} {
		c.reject(409, wire.Conflict, method, one, admin, "")
		c.reject(400, wire.InvalidRequest, method, one+"?user=%zz", admin, "")
	}
	c.reject(409, wire.Conflict, "GET", one+"/messages", admin, "")
	c.reject(409, wire.Conflict, "GET", one+"/uploads/0", admin, "")
	c.reject(400, wire.InvalidRequest, "GET", one+"/uploads/0?user=%zz", admin, "")
	c.reject(409, wire.Conflict, "GET", one+"/transcript", admin, "")
	c.reject(409, wire.Conflict, "GET", one+"/messages/m/events", admin, "")
	c.ok(200, "GET", one+"?user=bot", admin, "")
	c.unpaged(one+"/messages", member)
	c.ok(200, "GET", one+"/messages?user=bot", admin, "")
	c.ok(204, "DELETE", one+"?user=bot", admin, "")
}
