package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// ask opens the chat of an agent and sends a message whose answer waits.
func (b *tab) ask(agent, message string) {
	b.t.Helper()
	b.visit("/chat/" + agent)
	b.see("Chat with " + agent)
	b.see("Running")
	b.fill(compose, message)
	b.press(kb.Enter)
	b.wait(`document.querySelector(".wait button:not([disabled])") !== null && document.querySelector(".live") === null`)
}

// writing is a message to the demo model, which calls Write. The call needs an approval.
func writing(name, content string) string {
	input, _ := json.Marshal(map[string]string{"file_path": name, "content": content}) // texts have a JSON
	return "/tool Write " + string(input)
}

// decide clicks a button of the card with a text.
func (b *tab) decide(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll(".wait button:not([disabled])")].find((e) => e.textContent.trim() === %q)
		document.querySelector("#chosen")?.removeAttribute("id")
		if (found) found.id = "chosen"
		return Boolean(found)
	})()`, text))
	b.click("#chosen")
}

const noCard = `document.querySelector(".wait") === null`

// An answer waits until its user approves exactly what is shown. Enter does not approve, from no
// place, and the answer goes on in the same message.
func TestApproveInTheChat(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.deployed(root, "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	b.ask("helper", writing("plan.md", "first\nsecond\n"))
	b.see("plan.md (a new file)")
	require.Equal(t, "TEXTAREA", eval[string](b, "document.activeElement.tagName"), "no button of the card has the focus")
	require.Equal(t, []string{"Added: +first\n", "Added: +second\n"}, eval[[]string](b, `[...document.querySelectorAll(".wait .add")].map((e) => e.textContent)`))
	b.accessible("approval")
	b.wait(`document.querySelector(".side .count")?.textContent === "1"`)
	b.wait(`document.querySelector(".sessions .mark.waiting") !== null`)

	b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".wait button")].find((e) => e.textContent === "Approve").focus()`))
	b.press(kb.Enter)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("` + compose + `").focus()`))
	b.press(kb.Enter)
	b.decide("Reject")
	b.see("The agent reads it.")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".wait input").focus()`))
	b.press("why" + kb.Enter)
	address := eval[string](b, "location.pathname")
	chat := strings.Replace(address, "/console/chat/helper/", "/api/v1/agents/helper/chat/sessions/", 1) + "/messages"
	require.Equal(t, "waiting", s.call("GET", chat, root, nil, http.StatusOK)["items"].([]any)[1].(map[string]any)["status"])

	b.open(s.url + address) // it waits without its page
	b.see("plan.md (a new file)")
	other := b.another()
	other.open(s.url + address)
	other.see("plan.md (a new file)")
	b.wait(`document.querySelector(".wait button:not([disabled])") !== null`)
	b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".wait button")].find((e) => e.textContent === "Approve").focus()`))
	b.press(" ")
	b.see("root approved Write.")
	b.see("Write returned")
	b.answered()
	b.wait(noCard)
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".message:not(.mine)").length`), "in the same message")
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".fold").length`), "of the same call")
	other.see("root approved Write.")
	other.wait(noCard)
	b.wait(`document.querySelector(".side .count") === null`)
	b.open(s.url + address)
	b.see("root approved Write.")
	b.see("Write returned")
	other.clean(s.url)
	b.clean(s.url)
}

// A rejection has a reason, an edited call its own input, and a message rejects what waits.
func TestRejectAndEditInTheChat(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.deployed(s.setUp(), "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	b.ask("helper", writing("a.md", "one\n"))
	b.decide("Reject")
	b.fill(".wait input", "Not on a Friday.")
	b.decide("Reject the call")
	b.see("root rejected Write.")
	b.see("Not on a Friday.")
	b.answered()

	b.ask("helper", writing("a.md", "one\n"))
	b.decide("Edit")
	b.fill(".wait textarea", "[]")
	b.decide("Approve the edited call")
	b.see("must be a JSON object")
	b.accessible("edited-call")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".wait textarea").select()`))
	b.press(`{"file_path": "b.md", "content": "two"}`)
	b.decide("Approve the edited call")
	b.see("root approved Write.")
	b.answered()
	require.Contains(t, b.text(), "b.md")

	b.ask("helper", writing("c.md", "three\n"))
	b.say("Never mind")
	b.see("Your message has rejected what waited.")
	b.see("The answer is complete.")
	b.answered()
	b.wait(noCard)
	b.clean(s.url)
}

// A call with markup, escapes and bidirectional marks is shown as text with their code points, and
// so is it in what the user edits.
func TestHostileCallsAreReadable(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.deployed(s.setUp(), "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	b.ask("helper", `/tool Bash {"command":"echo '<img src=x onerror=alert(1)>' \u001b[2K\u202egpj.exe\u2066\u200b\u00a0\udb40\udc41 # \u05d0\u05d1"}`)
	const want = "echo '<img src=x onerror=alert(1)>' <U+001B>[2K<U+202E>gpj.exe<U+2066><U+200B><U+00A0><U+E0041> # \u05d0\u05d1"
	require.Equal(t, want, eval[string](b, `document.querySelector(".wait pre").textContent`))
	require.Zero(t, eval[int](b, `document.querySelectorAll(".wait img").length`))
	require.True(t, eval[bool](b, `getComputedStyle(document.querySelector(".wait pre")).unicodeBidi === "bidi-override"`))
	b.fits()
	b.decide("Edit")
	b.wait(`/\\u001b\[2K\\u202egpj\.exe\\u2066\\u200b\\u00a0\\udb40\\udc41/.test(document.querySelector(".wait textarea").value)`)
	b.visit("/approvals")
	b.wait(fmt.Sprintf(`document.querySelector(".wait pre")?.textContent === %q`, want))
	faults := evaluate[[]string](b, `
	const { html, render } = await load("lib/preact.js")
	const { Executed } = await load("parts/exact.js")
	const faults = []
	for (const [name, text] of Object.entries({ long: "x".repeat(1 << 20), lines: "+a\n".repeat(300_000), marks: "a\u202e".repeat(200_000), unseen: "\u202e".repeat(200_000) })) {
		for (const tool_name of ["Bash", "Write"]) {
			const place = document.createElement("div")
			render(html`+"`<${Executed} call=${{ tool_name, executed: text }} />`"+`, place)
			if (place.querySelectorAll("*").length > 50_000) faults.push(name + ": too many elements")
			const shown = place.textContent.replaceAll("<U+202E>", "\u202e").replace(/\n$/, "")
			if (shown !== text.replace(/\n$/, "")) faults.push(name + " " + tool_name + ": " + shown.length + " characters of " + text.length)
		}
	}
	return faults`)
	require.Empty(t, faults)
	b.clean(s.url)
}

// watchButtons records whether the first button of each card reacts as soon as a condition is true,
// before anybody can click it.
func (b *tab) watchButtons(condition string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`new MutationObserver((_, observer) => {
		if (!(` + condition + `)) return
		observer.disconnect()
		window.atOnce = [...document.querySelectorAll(".wait .call .buttons")].map((e) => !e.querySelector("button").disabled)
	}).observe(document.body, { childList: true, subtree: true })`))
}

// Buttons that come under a cursor do not react at once: neither after a slow response, nor when a
// card above has gone. What there is to read has its size.
func TestButtonsThatMoveDoNotReact(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.deployed(root, "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.see("Chat with helper")
	b.see("Running")
	b.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const real = window.fetch
		const opened = new Promise((open) => { window.openGate = open })
		window.fetch = async (address, options) => {
			if (/approvals\/./.test(String(address))) await opened
			return real(address, options)
		}
	})()`))
	b.watchButtons(`document.querySelector(".wait .call .buttons")`)
	b.fill(compose, writing("first.md", "one\ntwo\n"))
	b.press(kb.Enter)
	b.wait(`document.querySelector(".wait") !== null && (window.shownAt ??= performance.now()) + 1000 < performance.now()`)
	require.Zero(t, eval[int](b, `document.querySelectorAll(".wait button").length`))
	b.do(chromedp.Evaluate[chromedp.Void](`openGate()`))
	b.wait(`window.atOnce !== undefined`)
	require.Equal(t, []bool{false}, eval[[]bool](b, `window.atOnce`), "after the response")
	b.wait(`document.querySelector(".wait button:not([disabled])") !== null`)
	b.see("4 lines, 48 bytes")

	b.visit("/chat/helper")
	b.see("Chat with helper")
	b.ask("helper", writing("second.md", "two\n"))
	b.visit("/approvals")
	b.wait(`document.querySelectorAll("article .wait button:not([disabled])").length === 6`)
	b.do(chromedp.Evaluate[chromedp.Void](`delete window.atOnce`))
	b.watchButtons(`document.querySelectorAll("article").length === 1`)
	first := s.call("GET", "/api/v1/approvals", root, nil, http.StatusOK)["items"].([]any)[0].(map[string]any)["id"].(string)
	s.call("POST", "/api/v1/approvals/"+first, root, map[string]any{"decision": "reject"}, http.StatusAccepted)
	b.wait(`window.atOnce !== undefined`)
	require.Equal(t, []bool{false}, eval[[]bool](b, `window.atOnce`), "after the card above has gone")
	b.decide("Approve")
	b.see("Nothing waits for you.")
	b.clean(s.url)
}

// Where a role approves, the owner of the chat sees for whom it waits, and an approver sees it on
// the page and in the count without a reload.
func TestAnotherUserApproves(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.deployed(root, "helper", map[string]any{"approvers": "maintainer"})
	s.join(root, "max", "maintainer")
	s.join(root, "mia", "member")
	amy := newTab(t)
	amy.open(s.url + "/console/approvals")
	amy.signIn("max", password)
	amy.see("Nothing waits for you.")
	mia := newTab(t)
	mia.open(s.url + "/console/chat/helper")
	mia.signIn("mia", password)
	mia.see("Chat with helper")
	mia.say(writing("plan.md", "first\n"))
	mia.see("plan.md (a new file)")
	mia.see("This waits for another maintainer or an administrator: you cannot approve it.")
	require.Zero(t, eval[int](mia, `document.querySelectorAll(".wait button").length`))
	mia.visit("/approvals")
	mia.see("Nothing waits for you.")
	mia.do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	mia.see("plan.md (a new file)")

	amy.see("plan.md (a new file)")
	amy.see("mia")
	amy.wait(`document.querySelector(".side .count")?.textContent === "1"`)
	amy.accessible("approvals")
	amy.decide("Approve")
	amy.see("Nothing waits for you.")
	amy.wait(`document.querySelector(".side .count") === null`)
	mia.see("max approved Write.")
	mia.see("Write returned")
	mia.wait(noCard)

	mia.say(writing("other.md", "first\n"))
	amy.see("other.md (a new file)")
	amy.decide("Reject")
	amy.fill(".wait input", "Not this one.")
	amy.decide("Reject the call")
	mia.see("max rejected Write.")
	mia.see("Not this one.")
	amy.clean(s.url)
	mia.clean(s.url)
}

// A question has a form of its schema, whose hostile texts are text, and an address that only a
// click opens. Several decisions are sent together.
func TestQuestionsInTheChat(t *testing.T) {
	t.Parallel()
	s := serve(t)
	asked := map[string]any{"subtype": "input_required", "stop_reason": "input_required", "pending": []any{
		map[string]any{"id": "q1", "kind": "question", "tool_name": "mcp__bank__pay", "tool_use_id": "t1", "input": map[string]any{}, "server": "bank" + markup, "reason": "Which account?" + markup, "schema": map[string]any{
			"type": "object", "required": []string{"name", "count"}, "properties": map[string]any{
				"name": map[string]any{"type": "string", "title": "Name" + markup}, "count": map[string]any{"type": "integer"}, "rate": map[string]any{"type": "number"},
				"sure": map[string]any{"type": "boolean"}, "color": map[string]any{"enum": []any{"red", 7}}, "list": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
				"__proto__": map[string]any{"type": "string"}, "odd": "no schema",
			},
		}},
		map[string]any{"id": "q2", "kind": "question", "tool_name": "mcp__bank__pay", "tool_use_id": "t2", "input": map[string]any{}, "server": "bank", "reason": "Visit it.", "url": "https://bank.invalid/pay?a=<b>\u202e"},
	}}
	result, err := json.Marshal(asked)
	require.NoError(t, err)
	s.events = "event: system\ndata: {\"subtype\":\"init\",\"session_id\":\"s1\"}\n\nevent: result\ndata: " + string(result) + "\n\nevent: done\ndata: {}\n\n"
	s.resumed = "event: partial_message\ndata: {\"partial\":{\"type\":\"text\",\"text\":\"Paid.\"}}\n\nevent: assistant\ndata: {\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"Paid.\"}]}}\n\n" +
		"event: result\ndata: {\"subtype\":\"success\"}\n\nevent: done\ndata: {}\n\n"
	s.answers = make(chan string, 10)
	s.deployed(s.setUp(), "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	b.ask("helper", "Pay")
	b.see("A question of bank<img")
	b.see("https://bank.invalid/pay?a=<b><U+202E>")
	require.Zero(t, eval[int](b, `document.querySelectorAll(".wait img, .wait a").length`))
	require.Equal(t, 1, eval[int](b, `[...document.querySelectorAll(".wait button")].filter((e) => e.textContent.includes("new tab")).length`))
	b.accessible("question")
	require.True(t, eval[bool](b, `[...document.querySelectorAll(".wait button")].at(-1).disabled`), "decisions are missing")
	b.wait(`!document.querySelector(".wait .call [aria-pressed]").disabled`) // it has moved with the size of the page
	b.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const field = (name) => [...document.querySelectorAll(".wait label")].find((l) => l.textContent.startsWith(name)).htmlFor
		for (const [label, name] of [["Name", "name"], ["count", "count"], ["rate", "rate"], ["sure", "sure"], ["color", "color"], ["list", "list"], ["__proto__", "proto"]]) document.getElementById(field(label)).dataset.field = name
		document.querySelectorAll(".wait .call")[1].querySelector("[aria-pressed]").click() // the page was visited
		document.querySelector(".wait .call [aria-pressed]").click()
	})()`))
	b.fill(`[data-field=count]`, "1.5")
	b.see("2 of 2 decided")
	b.decide("Send all decisions")
	b.see("must be a whole number")
	b.see("must not be empty")
	b.fill(`[data-field=count]`, "2")
	b.fill(`[data-field=name]`, "a"+kb.Enter)
	b.fill(`[data-field=rate]`, "0.5")
	b.fill(`[data-field=list]`, `["x"]`)
	b.fill(`[data-field=proto]`, "p")
	b.click(`[data-field=sure]`)
	b.do(chromedp.Evaluate[chromedp.Void](`{ const e = document.querySelector("[data-field=color]"); e.value = "1"; e.dispatchEvent(new Event("change", { bubbles: true })) }`))
	require.Empty(t, s.answers, "Enter sends nothing")
	b.decide("Send all decisions")
	b.see("Paid.")
	b.answered()
	var sent struct {
		Answers []struct {
			ID, Action string
			Content    json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(<-s.answers), &sent))
	require.Len(t, sent.Answers, 2)
	require.Equal(t, []string{"q1", "accept", "q2", "accept"}, []string{sent.Answers[0].ID, sent.Answers[0].Action, sent.Answers[1].ID, sent.Answers[1].Action})
	require.JSONEq(t, `{"name":"a","count":2,"rate":0.5,"sure":true,"color":7,"list":["x"],"__proto__":"p"}`, string(sent.Answers[0].Content))
	b.clean(s.url)
}
