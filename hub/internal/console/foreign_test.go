package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// element is JSON that preact would render as an element, if it took objects that the page did not
// create.
const element = `{"type":"h6","props":{"id":"foreign","className":"foreign","children":"look"},"key":null,"ref":null,"__b":1,"__k":null,"__v":7,"__c":null,"__e":null}`

// pushed stores a chat with a question and an answer of blocks.
func (s *server) pushed(token string) {
	s.t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	messages := []any{
		map[string]any{"id": "1", "role": "user", "content": "A question", "created_at": now},
		map[string]any{"id": "2", "role": "assistant", "content": "An answer", "created_at": now},
	}
	s.call("POST", "/api/v1/chat/push", token, map[string]any{"sessions": []any{map[string]any{"id": "one", "agent_name": "helper", "title": "One", "created_at": now, "updated_at": now, "messages": messages}}}, http.StatusOK)
}

// changed returns the body of a response with changes of its fields, as JSON.
func (s *server) changed(path, token string, changes map[string]string) string {
	s.t.Helper()
	body := s.call("GET", path, token, nil, http.StatusOK)
	for name, value := range changes {
		body[name] = json.RawMessage(value)
	}
	data, err := json.Marshal(body)
	require.NoError(s.t, err)
	return string(data)
}

// sessions is the route of the chats of all users.
const sessions = "/api/v1/admin/chat/sessions"

// talked deploys the agent helper, pushes chats, and returns the token and the id of their user.
func (s *server) talked() (token, owner string) {
	s.t.Helper()
	token = s.setUp()
	s.deployed(token, "helper", nil)
	s.pushed(token)
	first := s.call("GET", sessions, token, nil, http.StatusOK)["items"].([]any)[0]
	return token, first.(map[string]any)["userId"].(string)
}

// An object of JSON in place of any text of a runtime is displayed as text: in the detail of a
// deployment, the files, the messages, the transcript, and the inputs and results of tools.
func TestForeignObjectsAreText(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root, owner := s.talked()
	session := s.changed(sessions+"/one?user="+owner, root, map[string]string{"title": element, "userName": "[" + element + "]", "agentName": element, "messageCount": element, "source": element})
	// Each block has an element in each place of a text.
	blocks := []string{
		`{"type":"text","text":E}`, `{"type":"thinking","thinking":E}`, `{"type":"tool_use","id":"t","name":E,"input":E}`,
		`{"type":"tool_result","tool_use_id":"t","tool_name":E,"output":E,"duration_ms":E}`, `{"type":"tool_use","id":"u","name":"Bash","input":{"command":E}}`,
		`{"type":"tool_result","tool_use_id":E,"tool_name":E,"output":[E],"is_error":E}`, `{"type":"permission_denied","tool_use_id":"v","tool_name":E,"reason":E}`,
		`{"type":"mcp_status","status":"failed","name":E,"error":E}`, `{"type":"warning","message":E}`, `{"type":E}`, `E`, `{"type":"subagent_message","parent_tool_use_id":"t","content":[E,{"type":"text","text":E}]}`,
	}
	answer := `{"id":E,"role":"assistant","status":E,"createdAt":E,"model":E,"aigc":E,"usage":{"input_tokens":E,"output_tokens":E},"error":{"code":E,"message":E},"content":[` + strings.Join(blocks, ",") + `]}`
	messages := strings.ReplaceAll(`{"total":3,"items":[{"id":"1","role":"user","text":E,"createdAt":E},`+answer+`,{"id":"3","role":"assistant","content":[{"type":"text","text":"the last one"}]}]}`, "E", element)
	entries := strings.ReplaceAll(`{"total":4,"items":[{"seq":1,"type":"message","role":E,"runId":E,"time":E,"content":[{"type":"text","text":E},{"output":E}]},{"seq":2,"type":"event","runId":E,"time":E,"event":{"type":E,"subtype":E,"tool_name":E,"reason":E,"duration_ms":E,"usage":{"input_tokens":E,"output_tokens":E}}},
		{"seq":3,"type":"compaction","summary":E},{"seq":E,"type":E,"event":E}]}`, "E", element)
	const agent = "/api/v1/admin/agents/helper"
	deployment := s.changed(agent+"/deploy", root, map[string]string{"error": element, "publicUrl": element, "deployedBy": element, "deployedAt": element, "revision": element, "restartCount": element,
		"conditions": strings.ReplaceAll(`[{"type":"Ready","status":true,"message":E,"changedAt":E},{"type":E,"status":E,"message":[E],"changedAt":E}]`, "E", element)})
	detail := strings.ReplaceAll(`{"name":E,"model":E,"maxTurns":E,"permissionMode":E,"allowedTools":E,"settingSources":[E],"subagents":{"a":{"description":E}},"mcpServers":{"one":{"status":E,"error":E},"two":E}}`, "E", element)
	files := strings.ReplaceAll(`{"entries":[{"name":E,"type":E,"size":E},{"name":"notes.md","type":"file","size":E}]}`, "E", element)
	for path, body := range map[string]string{
		sessions + "/one": session, sessions + "/one/messages": messages, sessions + "/one/transcript": entries, sessions: `{"total":4,"items":[` + session + `,{"id":"two"},null,{"id":` + element + `,"messageCount":7,"title":"seven"}]}`,
		agent + "/deploy": deployment, "/api/v1/agents/helper/detail": detail, agent + "/files": files,
		"/api/v1/agents/helper/chat/sessions": `{"total":1,"items":[` + session + `]}`, "/api/v1/agents/helper/chat/sessions/one/messages": messages,
		agent + "/deploy/logs": `{"lines":["a",` + element + `]}`, agent + "/deploy/revisions": strings.ReplaceAll(`{"items":[{"revision":E,"deployedAt":E,"deployedBy":E,"changes":[E],"ready":true}]}`, "E", element),
	} {
		s.instead.Store(path, body)
	}
	b := newTab(t)
	b.open(s.url + "/console/chats/one?user=" + owner)
	b.signIn("root", password)
	look := func(place string) {
		t.Helper()
		b.settled()
		b.do(chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`))
		b.settled()
		require.Zero(t, eval[int](b, `document.querySelectorAll("h6, #foreign, .foreign").length`), place)
		require.Contains(t, eval[string](b, `document.body.textContent`), `"children":`, "%s\n%s", place, b.text())
		require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".frame h1").length`), "%s: the page stays", place)
	}
	b.wait(`document.body.textContent.includes("the last one")`)
	look("messages")
	b.visit("/chats/one/transcript?user=" + owner)
	look("transcript")
	b.visit("/chats")
	look("list of chats")
	for n := range 5 {
		b.visit(fmt.Sprint("/chats?sort=", n+1))
		require.Contains(t, b.text(), "seven")
		look("sorted list of chats")
	}
	b.visit("/chat/helper/one")
	b.wait(`document.body.textContent.includes("the last one")`)
	look("chat")
	b.click(".talk header button")
	b.see("notes.md")
	look("files")
	for _, part := range []string{"", "/deployments"} {
		b.visit("/agents/helper" + part)
		b.see("className")
		look("agent" + part)
		// The state is loaded again, and rendered from the same objects.
		b.do(chromedp.Evaluate[chromedp.Void](`window.dispatchEvent(new PopStateEvent("popstate"))`))
		look("agent" + part)
	}
	b.clean(s.url)
}

// Preact takes no object of JSON for its own, however often it is rendered, and in any place of a
// template.
func TestPreactRendersItsOwnElements(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	shown := evaluate[[]string](b, fmt.Sprintf(`
	const { html, render, useState } = await load("lib/preact.js")
	const views = [(o) => html`+"`<p>${o}</p>`, (o) => html`<p>${[o, [o]]}</p>`, (o) => html`<p><${() => o} /></p>`, (o) => html`<p><${({ children }) => children}>${o}</></p>`, (o) => html`<${o.type}>${o}</>`, (o) => o"+`]
	const own = html`+"`<b>own</b>`"+`
	const shown = []
	for (const view of views) {
		for (const text of [%q, '{"type":"h6","props":{}}', '{"type":"h6","props":{"dangerouslySetInnerHTML":{"__html":"<h6>"}},"__b":5,"constructor":null}', '{"__b":1,"type":null,"props":"x"}', "{}"]) {
			const object = JSON.parse(text)
			const root = document.createElement("div")
			for (let i = 0; i < 3; i++) render(view(object), root)
			if (root.querySelector("h6 h6, p h6, div > h6:not(:only-child)")) shown.push("an element: " + root.innerHTML)
			if (view !== views[4] && !root.textContent.includes(text)) shown.push("no text: " + root.innerHTML + " of " + text)
			if (JSON.stringify(object) !== text) shown.push("changed: " + text)
		}
	}
	for (const depth of [1000, 100_000]) {
		const nested = JSON.parse("[".repeat(depth) + "1" + "]".repeat(depth))
		const root = document.createElement("div")
		for (let i = 0; i < 3; i++) {
			render(html`+"`<p>${nested}</p><b>rest</b>`"+`, root)
			if (root.textContent.length < depth / 10 || !root.textContent.startsWith("[[") || root.querySelector("b").textContent !== "rest") shown.push("nested: " + root.innerHTML.slice(0, 100))
		}
	}
	const root = document.createElement("div")
	for (let i = 0; i < 3; i++) render(html`+"`<p>${own}${[own, 1, null, true, \"a\", () => 1]}</p>`"+`, root)
	shown.push(root.innerHTML)
	return shown`, element))
	require.Equal(t, []string{"<p><b>own</b><b>own</b>1a</p>"}, shown)
	b.clean(s.url)
}

// A malformed element of a list, a block of a message and a time that is none hide only themselves.
func TestMalformedElementsHideThemselves(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, owner := s.talked()
	malformed := []string{`{"toString":1}`, "null", "1", `"text"`, "[]", `[[[]]]`, `{"type":null}`, `{"type":{"toString":1}}`, `{"type":"tool_use","id":{"toString":1},"name":{"toString":1},"input":null}`,
		`{"type":"subagent_message","content":{"toString":1}}`, `{"type":"text","text":{"toString":1}}`, `{"type":"thinking","thinking":[null]}`, `{"type":"tool_result","output":{"valueOf":1,"toString":1},"duration_ms":{"toString":1}}`,
		`{"type":"text","text":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}`}
	for i := range 3 {
		malformed = append(malformed, strings.Repeat(`{"type":"subagent_message","content":[`, 100*i+1)+"null"+strings.Repeat("]}", 100*i+1))
	}
	times := []string{`"10000-01-01T00:00:00Z"`, `"no time"`, `""`, "null", "1e400", "1e300", `{"toString":1}`, `"-271822-01-01T00:00:00Z"`, `[]`}
	whole := make([]string, 0, len(times)+5)
	for i, at := range times {
		whole = append(whole, fmt.Sprintf(`{"id":"m%d","role":"assistant","createdAt":%s,"content":[{"type":"text","text":"after %d"}]}`, i, at, i))
	}
	whole = append(whole, "null", "1", `{"toString":1}`, `{"role":{"toString":1},"content":"text"}`, `{"role":"assistant","usage":{"input_tokens":{"toString":1}},"status":{"toString":1},"content":[null]}`, `{"role":"user","text":{"toString":1}}`)
	messages := fmt.Sprintf(`{"total":99,"items":[{"id":"0","role":"assistant","content":[{"type":"text","text":"the first block"},%s,{"type":"text","text":"the last block"}]},%s,{"id":"9","role":"user","text":"the last message"}]}`,
		strings.Join(malformed, ","), strings.Join(whole, ","))
	list := make([]string, 0, len(times)+1)
	for i, at := range times {
		list = append(list, fmt.Sprintf(`{"id":"s%d","userId":%q,"userName":"root","agentName":"helper","title":"Chat %d.","messageCount":1,"source":"hub","createdAt":%s,"lastMessageAt":%s}`, i, owner, i, at, at))
	}
	list = append(list, `{"toString":1}`, "null", `{"id":{"toString":1},"title":{"toString":1},"source":{"toString":1}}`, "[]", `"text"`)
	all := `{"total":99,"items":[` + strings.Join(list, ",") + `,{"id":"z","userId":"u","title":"The last chat","source":"hub"}]}`
	entries := make([]string, 0, len(times)+len(malformed)+1)
	for i, at := range times {
		entries = append(entries, fmt.Sprintf(`{"seq":%d,"type":"message","role":"user","time":%s,"content":[{"text":"Entry %d."}]}`, i, at, i))
	}
	entries = append(append(entries, malformed...), `{"seq":99,"type":"compaction","summary":"The last entry"}`)
	for path, body := range map[string]string{
		sessions: all, sessions + "/one/messages": messages, sessions + "/one/transcript": `{"total":99,"items":[` + strings.Join(entries, ",") + `]}`,
		"/api/v1/agents/helper/chat/sessions": all, "/api/v1/agents/helper/chat/sessions/one/messages": strings.Replace(messages, "99", "20", 1),
		"/api/v1/admin/agents/helper/files": `{"entries":[null,{"toString":1},{"name":{"toString":1},"size":{"toString":1}},{"name":"notes.md","type":"file","size":1}]}`,
	} {
		s.instead.Store(path, strings.ReplaceAll(body, "1e400", "1e308"))
	}
	b := newTab(t)
	b.open(s.url + "/console/chats/one?user=" + owner)
	b.signIn("root", password)
	const hidden = "This part cannot be shown."
	seen := func(texts ...string) {
		t.Helper()
		has := func(text string) { b.wait(fmt.Sprintf(`document.body.textContent.includes(%q)`, text)) } // also what is not on the screen
		for _, text := range texts {
			has(text)
		}
		for i := range times {
			if len(texts) > 0 && strings.HasPrefix(texts[0], "the ") {
				has(fmt.Sprintf("after %d", i))
			}
		}
		require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".frame h1").length`), "the page stays")
		require.Less(t, eval[int](b, `document.querySelectorAll(".bad").length`), 30, "only malformed parts are hidden\n%s", b.text())
	}
	b.wait(`document.querySelectorAll(".column .message").length > 3`)
	seen("the first block", "the last block", "the last message", hidden)
	b.visit("/chats/one/transcript?user=" + owner)
	seen("Entry 0.", "Entry 8.", "The last entry", hidden)
	b.visit("/chats")
	seen("Chat 0.", "Chat 8.", "The last chat", hidden, "10000-01-01T00:00:00Z", "no time")
	b.visit("/chat/helper/one")
	seen("the first block", "the last block", "the last message", "Chat 0.", "Chat 8.", "The last chat", hidden)
	b.click(".talk header button")
	seen("notes.md")
	for _, at := range []string{"10000-01-01T00:00:00Z", "no-time"} {
		b.visit("/audit?from=" + at)
		b.see("Audit log")
		require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".frame h1").length`))
	}
	b.clean(s.url)
}

// A malformed event of a run hides only what it would have displayed, and the answer ends.
func TestMalformedEventsHideThemselves(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.deployed(s.setUp(), "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.see("Chat with helper")
	shown := evaluate[map[string]any](b, fmt.Sprintf(`
	const { Conversation } = await load("parts/conversation.js")
	const scroller = document.querySelector(".scroll")
	const talk = new Conversation(scroller, scroller.querySelector(".column:last-child"), { onFollow() {}, onTop() {}, retry() {} })
	const answer = talk.ask("A question")
	const malformed = [null, 1, "x", [], {}, { toString: 1 }, { valueOf: 1, toString: {} }, JSON.parse(%q)]
	const types = ["hub", "hub.notice", "hub.saved", "partial_message", "assistant", "tool_result", "system", "result", "error", "cancelled"]
	for (const v of malformed) {
		await answer.event("hub", v)
		for (const type of types) {
			const name = type.startsWith("hub") ? "hub" : type
			await answer.event(name, v)
			await answer.event(name, { type, aigcNotice: v, text: v, position: v, budgets: v, partial: v, message: v, result: v, subtype: v, model: v, is_error: v, errors: v, error: v, usage: v, total_cost_usd: v, duration_ms: v })
			await answer.event(name, { type, budgets: [v], partial: { type: "text", text: v }, message: { content: [v, { type: "tool_use", id: v, name: v, input: v }] }, result: { tool_use_id: v, output: v, tool_name: v },
				subtype: "init", usage: { input_tokens: v, output_tokens: v }, errors: [v], is_error: true, parent_tool_use_id: v })
		}
	}
	await answer.event("partial_message", { type: "partial_message", partial: { type: "text", text: "**the end**" } })
	for (const v of malformed) answer.end({ status: v, createdAt: v, usage: v, model: v, error: v })
	while (!answer.node.querySelector("strong")) await new Promise((done) => setTimeout(done)) // it is rendered in slices
	return { elements: answer.node.querySelectorAll("h6, #foreign").length, last: answer.node.querySelector("strong").textContent, live: answer.node.classList.contains("live") }`, element))
	require.Equal(t, map[string]any{"elements": 0.0, "last": "the end", "live": false}, shown)
	b.clean(s.url)
}

// A part that failed is displayed when its page is rendered again and nothing is wrong any more.
func TestPartIsDisplayedAgain(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	shown := evaluate[[]string](b, `
	const { html, render } = await load("lib/preact.js")
	const { each } = await load("parts/part.js")
	const Name = ({ id, fails }) => { if (fails) throw new Error("a fault"); return html`+"`<b>${id}</b><i>.</i>`"+` }
	const shown = []
	const views = [(o, fails) => { if (fails) throw new Error("a fault"); return html`+"`<li>${o.id}</li>`"+` }, (o, fails) => html`+"`<li><${Name} id=${o.id} fails=${fails} /></li>`, (o, fails) => html`<li>a</li><${Name} id=${o.id} fails=${fails} />`"+`]
	for (const view of views) {
		const root = document.createElement("div")
		const texts = []
		for (const fails of [false, true, true, false, true, false]) {
			render(html`+"`<ul>${each([{ id: 1 }, { id: 2 }, { id: 3 }], \"li\", (o) => view(o, fails && o.id === 2))}</ul>`"+`, root)
			await new Promise((done) => setTimeout(done, 10))
			texts.push(root.textContent.replaceAll("This part cannot be shown.", "X"))
		}
		shown.push(texts.join())
	}
	return shown`)
	require.Equal(t, []string{"123,1X3,1X3,123,1X3,123", "1.2.3.,1.X3.,1.X3.,1.2.3.,1.X3.,1.2.3.", "a1.a2.a3.,a1.Xa3.,a1.Xa3.,a1.a2.a3.,a1.Xa3.,a1.a2.a3."}, shown)
	b.clean(s.url)
}
