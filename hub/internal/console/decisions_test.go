package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const chatsOfHelper = "/api/v1/agents/helper/chat/sessions"

// freeze makes a page see a list as it is now.
func (s *server) freeze(token, path string) {
	s.t.Helper()
	list, err := json.Marshal(s.call("GET", path, token, nil, http.StatusOK))
	require.NoError(s.t, err)
	s.instead.Store(path, string(list))
}

// Another user, or another page, was first: the page says so and shows what was decided. A decision
// whose response is lost can be made again.
func TestADecisionThatIsTooLateOrLost(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.deployed(root, "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	waits := func() string {
		return s.call("GET", "/api/v1/approvals", root, nil, http.StatusOK)["items"].([]any)[0].(map[string]any)["id"].(string)
	}
	b.ask("helper", writing("a.md", "one\n"))
	s.freeze(root, chatsOfHelper)
	s.call("POST", "/api/v1/approvals/"+waits(), root, map[string]any{"decision": "approve"}, http.StatusAccepted)
	b.decide("Reject")
	b.decide("Reject the call")
	b.see("This does not wait any more: another answer or a message came first.")
	b.see("root approved Write.")
	b.wait(noCard)
	require.NotContains(t, b.text(), "root rejected Write.")
	s.instead.Clear()

	b.ask("helper", writing("b.md", "two\n"))
	s.freeze(root, chatsOfHelper)
	s.loses.Store(true) // Chromium sends a request again on each connection that was used before
	b.decide("Approve")
	b.see("The hub cannot be reached.")
	s.loses.Store(false)
	b.decide("Approve")
	b.see("root approved Write.")
	b.see("Write returned")
	b.wait(noCard)
	require.Equal(t, 1, strings.Count(b.text(), "root approved Write."))
	s.instead.Clear()

	b.ask("helper", writing("c.md", "three\n"))
	b.visit("/approvals")
	b.see("c.md (a new file)")
	s.freeze(root, "/api/v1/approvals")
	s.call("POST", "/api/v1/approvals/"+waits(), root, map[string]any{"decision": "approve"}, http.StatusAccepted)
	b.decide("Reject")
	b.decide("Reject the call")
	b.see("Nothing waits with this id: it was answered, or a message came first.")
	s.instead.Clear()
	b.see("Nothing waits for you.")
	b.clean(s.url)
}

// waiting are the events of a run that ends waiting.
func waiting(t *testing.T, pending ...map[string]any) string {
	t.Helper()
	result, err := json.Marshal(map[string]any{"subtype": "input_required", "stop_reason": "input_required", "pending": pending})
	require.NoError(t, err)
	return "event: system\ndata: {\"subtype\":\"init\",\"session_id\":\"s1\"}\n\nevent: result\ndata: " + string(result) + "\n\nevent: done\ndata: {}\n\n"
}

// Several calls wait together: each has its own decision, and they are sent together. What a
// program executes shows what it waits for, and a person decides nothing of it.
func TestSeveralDecisionsAndAProgram(t *testing.T) {
	t.Parallel()
	s := serve(t)
	call := func(id, kind, tool string) map[string]any {
		return map[string]any{"id": id, "kind": kind, "tool_name": tool, "tool_use_id": "t" + id, "input": map[string]any{"command": "run " + id}, "executed": "run " + id}
	}
	s.events = waiting(t, call("w1", "approval", "Bash"), call("w2", "approval", "Bash"), call("w3", "approval", "Bash"))
	s.resumed = waiting(t, call("w4", "client_tool", "open"), call("w5", "approval", "Bash"))
	s.answers = make(chan string, 10)
	s.deployed(s.setUp(), "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	b.ask("helper", "Run")
	for _, text := range []string{"run w1", "run w2", "run w3", "0 of 3 decided"} {
		b.see(text)
	}
	b.accessible("several-approvals")
	press := func(n int, text string) {
		b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".wait .call")[` + string(rune('0'+n)) + `].querySelectorAll("button")].find((e) => e.textContent === "` + text + `").click()`))
	}
	press(0, "Approve")
	b.see("1 of 3 decided")
	press(1, "Reject")
	b.fill(".wait input", "Not two.")
	press(2, "Edit")
	b.see("3 of 3 decided")
	b.fill(".wait textarea", `{"command":"run w6"}`)
	require.Empty(t, s.answers, "nothing is sent before")
	b.decide("Send all decisions")
	require.JSONEq(t, `[{"id":"w1","decision":"approve"},{"id":"w2","decision":"reject","reason":"Not two."},{"id":"w3","decision":"approve","input":{"command":"run w6"}}]`,
		answersOf(t, <-s.answers))
	b.see("This waits for the program that sent the message.")
	b.see("run w4")
	b.see("run w5")
	require.Zero(t, eval[int](b, `document.querySelectorAll(".wait button").length`))
	b.open(s.url + eval[string](b, "location.pathname"))
	b.see("This waits for the program that sent the message.")
	for _, text := range []string{"root approved Bash.", "root rejected Bash.", "Not two."} {
		b.see(text)
	}
	b.clean(s.url)
}

// answersOf returns the answers of the request of a run.
func answersOf(t *testing.T, body string) string {
	t.Helper()
	var sent struct{ Answers json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(body), &sent))
	return string(sent.Answers)
}

// The schema of a question is that of another program: no form of it fails the page, or has more
// fields than a person can read.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	require.Empty(t, evaluate[[]string](b, `
	const { html, render } = await load("lib/preact.js")
	const { Waiting } = await load("parts/waiting.js")
	const faults = []
	const deep = (n) => { let of = { type: "string" }; for (let i = 0; i < n; i++) of = { type: "object", properties: { a: of } }; return of }
	const many = (n, of) => Object.fromEntries([...Array(n).keys()].map((i) => ["p" + i, of]))
	const object = (properties) => ({ type: "object", properties })
	for (const [name, schema] of Object.entries({
		deep: deep(900), deepInside: object({ a: deep(900) }), many: object(many(100_000, { type: "string" })), hundred: object(many(100, { type: "string" })),
		loop: { $ref: "#" }, loopInside: object({ a: { $ref: "#/properties/a" }, b: { $ref: "#" } }), allOf: { allOf: [{ $ref: "#" }] },
		options: object({ a: { enum: [...Array(100_000).keys()] } }), constants: object({ a: { oneOf: [{ const: 1, title: {} }, { const: null }] } }),
		types: object({ a: { type: ["string", "null"] }, b: null, c: [], d: { type: "object", enum: 5, oneOf: {} }, e: { title: [], description: {}, default: {} } }),
		long: object({ a: { type: "string", title: "t".repeat(1 << 20), description: "\u202e<img src=x>".repeat(10_000) } }),
		text: "text", list: [], number: 5, required: { type: "object", required: "a", properties: { a: {} } }, properties: { properties: [1, 2] }, prototype: JSON.parse('{"properties":{"__proto__":{"type":"integer","default":1},"constructor":{"type":"boolean"}}}'),
	})) {
		const place = document.createElement("div")
		document.body.append(place)
		render(html`+"`<${Waiting} pending=${[{ id: name, kind: \"question\", tool_name: \"t\", reason: \"r\", schema }]} may send=${() => 0} />`"+`, place)
		await new Promise((done) => setTimeout(done, 20))
		if (place.querySelectorAll("button").length < 3) faults.push(name + " cannot be declined: " + place.textContent.slice(0, 200))
		if (place.querySelectorAll("*").length > 3000) faults.push(name + ": too many elements")
		if (place.querySelector("img, a, script")) faults.push(name + ": markup")
		place.remove()
	}
	return faults`))
	b.clean(s.url)
}
