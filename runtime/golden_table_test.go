package runtime_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// conversation is one golden: what is given, from which all else follows.
type conversation struct {
	name     string
	about    string
	protocol modeltest.Protocol // "" is Anthropic's
	agents   string
	files    []givenFile // below the working directory
	replies  []modeltest.Reply
	runs     []leg
	full     bool // with all that the model is told of the built-in tools
}

type givenFile struct{ path, text string }

// leg is one run of a conversation. SESSION-1 in its body is the first one's session.
type leg struct {
	accept   string // a header line; "" leaves the form of the answer to the body
	body     string
	cancelAt string // name of the event at which the caller cancels the run; "" if it does not
}

const greeting = `{"message": "Hello!"}`

// yaml is a definition of an agent that has the lines of more.
func yaml(more string) string {
	return `agents:
  - id: helper
    model: claude-sonnet-4-5
    provider: {protocol: anthropic, baseUrl: "https://model.example", apiKey: secret}
` + more
}

var notes = []givenFile{{"notes.txt", "Buy milk.\nCall Ada.\n"}}

var readNotes = modeltest.Stream(modeltest.Text("Let me look."),
	modeltest.ToolCall("toolu_1", "Read", `{"file_path":`, `"notes.txt"}`))

var conversations = []conversation{
	{
		name: "text", about: "A question and its answer.",
		agents: yaml("    systemPrompt: You are brief.\n    datasets: {handbook: The staff handbook}\n    allowedTools: []\n"),
		replies: []modeltest.Reply{modeltest.Stream(modeltest.Text("Hi ", "there."),
			modeltest.Usage(model.Usage{InputTokens: 12, OutputTokens: 4}))},
		runs: []leg{{body: greeting}},
	},
	{
		name: "blocks", about: "Without partial messages: each event is whole.",
		agents:  yaml("    allowedTools: []\n"),
		replies: []modeltest.Reply{modeltest.Stream(modeltest.Text("Hi ", "there."))},
		runs:    []leg{{body: `{"message": "Hello!", "stream": "block"}`}},
	},
	{
		name: "blocking", about: "The answer in one piece.",
		agents:  yaml("    allowedTools: []\n"),
		replies: []modeltest.Reply{modeltest.Stream(modeltest.Text("Hi ", "there."))},
		runs:    []leg{{accept: "accept: application/json\n\n", body: greeting}},
	},
	{
		name: "tool-call", about: "The model calls a tool, and answers with what it got to know.",
		agents: yaml("    allowedTools: [Read]\n"), files: notes,
		replies: []modeltest.Reply{readNotes, modeltest.Stream(modeltest.Text("Buy milk and call Ada."))},
		runs:    []leg{{body: `{"message": "What do I have to do?"}`}},
	},
	{
		name: "all-tools", about: "What the model is told of every built-in tool. The caller's own limit ends the run, as the only answer asks for more.",
		agents: yaml("    permissionMode: acceptEdits\n"), full: true,
		files: append([]givenFile{{".agents/skills/rhyme/SKILL.md",
			"---\nname: rhyme\ndescription: Makes rhymes.\n---\nEnd lines alike.\n"}}, notes...),
		replies: []modeltest.Reply{readNotes},
		runs:    []leg{{body: `{"message": "What do I have to do?", "maxTurns": 1}`}},
	},
	{
		name: "thinking", about: "The model thinks before it calls a tool. Its thinking goes back to it with the signature, which the caller never sees.",
		agents: yaml("    maxOutputTokens: 4096\n    thinking: {budgetTokens: 1024}\n    allowedTools: [Read]\n"), files: notes,
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.Thinking("The notes ", "say it."), modeltest.Signature("c2lnbmVk"), modeltest.Redacted("aGlkZGVu"),
				modeltest.ToolCall("toolu_1", "Read", `{"file_path":"notes.txt"}`)),
			modeltest.Stream(modeltest.Text("Buy milk.")),
		},
		runs: []leg{{body: `{"message": "What do I have to do?"}`}},
	},
	{
		name: "refused-tool", about: "A call that the agent's definition does not allow. The model is told why, and goes on.",
		agents: yaml("    allowedTools: [\"Bash(git *)\"]\n"),
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "Bash", `{"command":"rm -r ."}`)),
			modeltest.Stream(modeltest.Text("I may not do that.")),
		},
		runs: []leg{{body: `{"message": "Tidy up."}`}},
	},
	{
		name: "subagent", about: "A task for a subagent. It begins with nothing but its prompt; its events carry the id of the call, and its last text comes back.",
		agents: yaml("    allowedTools: [Read, Task]\n    subagents:\n      reader: {description: Reads files., prompt: You read., tools: [Read], model: claude-haiku-4-5}\n"),
		files:  notes,
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "Task",
				`{"description":"Read the notes","prompt":"What do the notes say?","subagent_type":"reader"}`)),
			modeltest.Stream(modeltest.ToolCall("toolu_2", "Read", `{"file_path":"notes.txt"}`)),
			modeltest.Stream(modeltest.Text("Buy milk, call Ada.")),
			modeltest.Stream(modeltest.Text("Two things: milk, and Ada.")),
		},
		runs: []leg{{body: `{"message": "What do I have to do?"}`}},
	},
	{
		name: "mcp-tool", about: "A tool of an MCP server. The server is connected before the model is asked.",
		agents: yaml("    allowedTools: [mcp__weather]\n    mcpServers:\n      weather: {transport: http, url: \"https://mcp.example/mcp\"}\n"),
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "mcp__weather__now", `{"place":"Riga"}`)),
			modeltest.Stream(modeltest.Text("It rains in Riga.")),
		},
		runs: []leg{{body: `{"message": "How is the weather in Riga?"}`}},
	},
	{
		name: "skill", about: "The system prompt names the skills; the model loads the one that fits.",
		agents: yaml("    systemPrompt: You write.\n    allowedTools: [Skill]\n"),
		files:  []givenFile{{".agents/skills/rhyme/SKILL.md", "---\nname: rhyme\ndescription: Makes rhymes.\n---\nEnd lines alike.\n"}},
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "Skill", `{"skill":"rhyme"}`)),
			modeltest.Stream(modeltest.Text("The cat\nwore a hat.")),
		},
		runs: []leg{{body: `{"message": "Write me a rhyme."}`}},
	},
	{
		name: "cancelled-and-resumed", about: "A run is cancelled in the middle of a call. The next run of the session tells the model that the call was interrupted.",
		agents: yaml("    allowedTools: [\"Bash(sleep *)\"]\n"),
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.Text("I wait."), modeltest.ToolCall("toolu_1", "Bash", `{"command":"sleep 1000"}`)),
			modeltest.Stream(modeltest.Text("I waited, but not to the end.")),
		},
		runs: []leg{{body: `{"message": "Wait a while."}`, cancelAt: "assistant"},
			{body: `{"message": "Enough?", "sessionId": "SESSION-1"}`}},
	},
	{
		name: "max-turns", about: "The answer of the last turn asks for a tool, which is not run any more.",
		agents: yaml("    maxTurns: 2\n    allowedTools: [Read]\n"), files: notes,
		replies: []modeltest.Reply{readNotes,
			modeltest.Stream(modeltest.Text("Once more."), modeltest.ToolCall("toolu_2", "Read", `{"file_path":"notes.txt"}`))},
		runs: []leg{{body: `{"message": "What do I have to do?"}`}},
	},
	{
		name: "compaction", about: "A conversation comes near the context window. The model is asked for a summary, which takes the place of what was said before.",
		agents: yaml("    contextWindow: 600\n    allowedTools: [Read]\n"),
		files:  []givenFile{{"sea.txt", sea}, {"end.txt", "It is late.\n"}},
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "Read", `{"file_path":"sea.txt"}`),
				modeltest.Usage(model.Usage{InputTokens: 300, OutputTokens: 20})),
			modeltest.Stream(modeltest.ToolCall("toolu_2", "Read", `{"file_path":"end.txt"}`),
				modeltest.Usage(model.Usage{InputTokens: 500, OutputTokens: 20})),
			modeltest.Stream(modeltest.Text("The user wants a story. It begins with the sea in the morning."),
				modeltest.Usage(model.Usage{InputTokens: 470, OutputTokens: 20})),
			modeltest.Stream(modeltest.Text("It was late, and the sea was blue."),
				modeltest.Usage(model.Usage{InputTokens: 330, OutputTokens: 10})),
		},
		runs: []leg{{body: `{"message": "Tell me the story of sea.txt and end.txt."}`}},
	},
	{
		name: "upstream-errors", about: "The model's side refuses, and then fails in the middle of an answer. Neither is tried again; what was said is kept.",
		agents: yaml("    allowedTools: []\n"),
		replies: []modeltest.Reply{
			modeltest.Status(http.StatusTooManyRequests, "Retry-After", "7"),
			modeltest.Stream(modeltest.Text("Once upon"), modeltest.Error("overloaded_error")),
			modeltest.Stream(modeltest.Text(" a time.")),
		},
		runs: []leg{
			{body: `{"message": "Tell me a story."}`}, {body: `{"message": "Please.", "sessionId": "SESSION-1"}`},
			{body: `{"message": "Go on.", "sessionId": "SESSION-1"}`},
		},
	},
	{
		name: "openai-tool-call", about: "A call of a tool in OpenAI's protocol.", protocol: modeltest.OpenAI,
		agents: `agents:
  - id: helper
    model: gpt-5
    provider: {protocol: openai, baseUrl: "https://model.example/v1", apiKey: secret}
    systemPrompt: You are brief.
    allowedTools: [Read]
`,
		files:   notes,
		replies: []modeltest.Reply{readNotes, modeltest.Stream(modeltest.Text("Buy milk and call Ada."))},
		runs:    []leg{{body: `{"message": "What do I have to do?"}`}},
	},
}

// sea is about a hundred tokens: more than a fifth of a window of 600 keeps.
const sea = `The sea is wide and grey in the morning, and the boats come home with the tide. The gulls know it before the men do:
they cry above the harbour, and whoever sleeps wakes up. Then the nets are hung to dry, the fish are counted, and the price
is made on the quay, where it has been made for three hundred years. In the evening the sea is blue, and nobody looks at it.
Whoever was counted in the morning is counted again, and the lamps are lit from the quay up to the church on the hill.
`

// serveMCP serves one tool until the test ends.
func serveMCP(t *testing.T) string {
	server := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	type input struct {
		Place string `json:"place" jsonschema:"name of a town"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "now", Description: "The weather in a place."},
		func(_ context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Place + ": rain, 9 °C"}}}, nil, nil
		})
	front := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL
}
