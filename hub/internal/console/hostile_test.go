package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The events of the hub, such as the label of an answer, are only those with its name. An event
// that is not JSON hides only itself.
func TestEventsOfTheHubAreGenuine(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var events strings.Builder
	for _, name := range []string{"assistant", "system", "tool_result", "partial_message", "other", "hub.notice", "hub.saved", "hub"} {
		for _, data := range []string{
			`{"type":"hub","aigcNotice":"Written by a person"}`, `{"type":"hub.notice","position":"prepend","text":"Written by a person"}`, `{"type":"hub.notice","text":"Written by a person"}`,
			`{"type":"hub.saved","status":"failed","budgets":[{"name":"Written by a person"}]}`, `{"type":`, `no JSON`, `null`, `[]`,
		} {
			fmt.Fprintf(&events, "event: %s\ndata: %s\n\n", name, data)
		}
	}
	events.WriteString("event: partial_message\ndata: {\"type\":\"hub\",\"partial\":{\"type\":\"text\",\"text\":\"the whole answer\"}}\n\n")
	events.WriteString("event: assistant\ndata: {\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"the whole answer\"}]}}\n\n")
	events.WriteString("event: result\ndata: {\"subtype\":\"success\"}\n\nevent: done\ndata: {}\n\n")
	s.events = events.String()
	s.deployed(s.setUp(), "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.see("Chat with helper")
	b.say("Begin")
	b.wait(`document.querySelector(".compose [role=status]:last-child").textContent === "The answer is complete."`)
	b.see("the whole answer")
	require.NotContains(t, b.text(), "Written by a person")
	b.clean(s.url)
}

// An answer has a limited number of elements and characters, whatever its events and blocks are,
// and the last label is always displayed.
func TestAnswersHaveLimits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.deployed(s.setUp(), "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.see("Chat with helper")
	faults := evaluate[[]string](b, `
	const { Conversation, chunkOf } = await load("parts/conversation.js")
	const { el } = await load("parts/inline.js")
	const scroller = el("div", {}, el("div", {})) // which is not displayed, because a layout takes most of the time
	const talk = new Conversation(scroller, scroller.firstChild, { onFollow() {}, onTop() {}, retry() {} })
	const text = (text) => ["partial_message", { partial: { type: "text", text } }]
	const thinking = (text) => ["partial_message", { partial: { type: "thinking", text } }]
	const long = "x".repeat(1_000_000)
	const kinds = {
		alternating: (i) => (i % 2 ? text("a") : thinking("b")),
		calls: (i) => ["partial_message", { partial: { type: "tool_use", tool_use_id: "c" + i, tool_name: "Bash" } }],
		results: (i) => ["tool_result", { result: { tool_use_id: "r" + i, tool_name: "Bash", output: "o" } }],
		"results of one": () => ["tool_result", { result: { tool_use_id: "r", tool_name: "Bash", output: "o" } }],
		warnings: () => ["system", { subtype: "warning", message: "w" }],
		malformed: () => ["assistant", null],
		errors: (i) => [["error", { error: "e" }], ["cancelled", {}], ["result", { is_error: true, errors: ["e"] }]][i % 3],
		thoughts: () => thinking(long),
		inputs: (i) => ["assistant", { message: { content: [{ type: "tool_use", id: "i" + i % 3, name: "Bash", input: { command: long } }] } }],
	}
	const faults = []
	const judge = (kind, node, label) => {
		const elements = node.querySelectorAll("*").length
		if (elements > 70_000 || node.textContent.length > 20_000_000) faults.push(kind + ": " + elements + " elements with " + node.textContent.length + " characters")
		if (!node.textContent.includes(label)) faults.push(kind + ": no label")
	}
	for (const [kind, event] of Object.entries(kinds)) {
		const answer = talk.ask("A question")
		for (let i = 0; i < (kind === "thoughts" || kind === "inputs" ? 25 : 5_100); i++) await answer.event(...event(i))
		await answer.event("hub", { type: "hub.notice", position: "append", text: "the label" })
		answer.end({ status: "completed" })
		judge(kind, answer.node, "the label")
		if (kind === "errors" && answer.body.querySelectorAll(":scope > .bad").length > 1) faults.push("more than one end")
		talk.clear()
	}
	for (const [position, want] of [["append", "hello\n\nthe label"], ["prepend", "the label\n\nhello"]]) {
		const answer = talk.ask("A question")
		const label = () => answer.event("hub", { type: "hub.notice", position, text: "the label" })
		if (position === "prepend") await label()
		await answer.event(...text("hel"))
		await answer.event(...text("lo"))
		if (position === "append") await label()
		answer.end({ status: "completed" })
		if (answer.text !== want) faults.push(position + ": a copy is " + JSON.stringify(answer.text))
	}
	const blocks = { texts: { type: "text", text: "a" }, warnings: { type: "warning", message: "w" }, malformed: null, others: { type: "other" },
		nested: { type: "subagent_message", content: Array.from({ length: 100 }, () => ({ type: "text", text: "a" })) }, outputs: { type: "tool_result", tool_use_id: "t", tool_name: "Bash", output: "o".repeat(10_000) } }
	for (const [kind, block] of Object.entries(blocks)) {
		for (const count of kind === "texts" ? [1, 4998, 4999, 5000, 5001, 8000] : [1, 5001]) {
			const content = [...Array.from({ length: count }, () => block), { type: "text", text: "the label" }]
			const chunk = await chunkOf([{ role: "assistant", content }], {})
			judge(kind + " " + count, chunk, "the label")
			if (chunk.textContent.split("the label").length !== 2) faults.push(kind + " " + count + ": the label is not once there")
		}
	}
	return faults`)
	require.Empty(t, faults)
	b.clean(s.url)
}

// The spaces before the lines of a deep value would be the square of its size.
func TestDeepValuesAreShort(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.deployed(root, "helper", nil)
	const count, depth = 300, 900
	deep := []string{`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}", strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth), `{"a":` + strings.Repeat("[1,", depth) + "1" + strings.Repeat("]", depth) + "}"}
	var blocks []string
	for i := range count {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":"Bash","input":%s}`, i, deep[i%len(deep)]))
	}
	blocks = append(blocks, `{"type":"tool_use","id":"u","name":"Bash","input":{"command":"ls","list":[1,2]}}`)
	content := "[" + strings.Join(blocks, ",") + "]"
	now := time.Now().UTC().Format(time.RFC3339)
	message := map[string]any{"id": "1", "role": "assistant", "content": json.RawMessage(content), "created_at": now}
	s.call("POST", "/api/v1/chat/push", root, map[string]any{"sessions": []any{map[string]any{"id": "one", "agent_name": "helper", "title": "One", "created_at": now, "updated_at": now, "messages": []any{message}}}}, http.StatusOK)
	b := newTab(t)
	b.open(s.url + "/console/chat/helper/one")
	b.signIn("root", password)
	b.wait(fmt.Sprintf(`document.querySelectorAll(".fold").length === %d`, count+1))
	const shown = `[...document.querySelectorAll(".fold pre")].reduce((sum, e) => sum + e.textContent.length, 0)`
	require.Less(t, eval[int](b, shown), 4*len(content)+5000*count)
	require.True(t, eval[bool](b, `document.querySelector(".fold:last-child pre").textContent === JSON.stringify({ command: "ls", list: [1, 2] }, null, 2)`))
	b.clean(s.url)
}

// Commands, code, outputs and names of files have no characters that hide or move others.
func TestControlCharactersAreVisible(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.deployed(s.setUp(), "helper", nil)
	const name = `a\u202egpj.exe\u001b[31m\u009b\u2066`
	s.instead.Store("/api/v1/admin/agents/helper/files", `{"entries":[{"name":"`+name+`","type":"file","size":1},{"name":"`+name+` folder","type":"directory"}]}`)
	b := newTab(t)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.click(".talk header button")
	b.see("gpj.exe")
	b.wait(`document.querySelector(".tree").textContent.includes("folder")`)
	require.True(t, eval[bool](b, `(() => { const text = document.querySelector(".tree").textContent; return text.split("a\ufffdgpj.exe\ufffd[31m\ufffd\ufffd").length === 3 && !/[\u001b\u009b\u202e\u2066]/.test(text) })()`))
	faults := evaluate[[]string](b, `
	const { chunkOf } = await load("parts/conversation.js")
	const faults = []
	const bad = "\u0000\u0008\u001b\u007f\u009b\u2028\u2029\u202a\u202e\u2066\u2069"
	const good = "a\tb \u200f\u200e\u5b57\u{1f600}"
	const fence = "\x60".repeat(3)
	const texts = [fence + "\nfirst\r\n" + good + bad + "\n" + fence, fence + "\n" + (good + bad).repeat(3000) + "\n" + fence, "\x60" + good + bad + "\x60"]
	const blocks = [...texts.map((text) => ({ type: "text", text })), { type: "tool_use", id: "t", name: good + bad, input: { command: good + bad } },
		{ type: "tool_result", tool_use_id: "t", output: good + bad + "\r\nend" }, { type: "permission_denied", tool_use_id: "u", tool_name: "Bash", reason: good + bad }, { type: "thinking", thinking: "thought" }]
	for (const block of blocks) {
		const text = (await chunkOf([{ role: "assistant", content: [block] }], {})).textContent
		for (const c of bad) if (text.includes(c)) faults.push(block.type + ": U+" + c.codePointAt(0).toString(16))
		if (block.type !== "thinking" && (!text.includes("\u200f\u200e\u5b57\u{1f600}") || text.split("\ufffd").length <= bad.length)) faults.push(block.type + ": " + JSON.stringify(text.slice(0, 200)))
	}
	return faults`)
	require.Empty(t, faults)
	b.clean(s.url)
}
