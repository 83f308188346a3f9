package runtime_test

import (
	"net/http"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// conversation is the input of one golden file.
type conversation struct {
	name     string
	about    string
	protocol modeltest.Protocol // "" is Anthropic's
	agents   string
	files    []givenFile // below the working directory
	replies  []modeltest.Reply
	runs     []leg
	full     bool // with the complete definitions of the built-in tools
}

type givenFile struct{ path, text string }

// leg is one run of a conversation. SESSION-1 in its body is replaced by the session of the first
// run.
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
		name: "text", about: "A question and the response.",
		agents: yaml("    systemPrompt: You are brief.\n    datasets: {handbook: The staff handbook}\n    allowedTools: []\n"),
		replies: []modeltest.Reply{modeltest.Stream(modeltest.Text("Hi ", "there."),
			modeltest.Usage(model.Usage{InputTokens: 12, OutputTokens: 4}))},
		runs: []leg{{body: greeting}},
	},
	{
		name: "blocks", about: "A stream without partial messages.",
		agents:  yaml("    allowedTools: []\n"),
		replies: []modeltest.Reply{modeltest.Stream(modeltest.Text("Hi ", "there."))},
		runs:    []leg{{body: `{"message": "Hello!", "stream": "block"}`}},
	},
	{
		name: "blocking", about: "A blocking response.",
		agents:  yaml("    allowedTools: []\n"),
		replies: []modeltest.Reply{modeltest.Stream(modeltest.Text("Hi ", "there."))},
		runs:    []leg{{accept: "accept: application/json\n\n", body: greeting}},
	},
	{
		name: "tool-call", about: "The model calls a tool and uses its result.",
		agents: yaml("    allowedTools: [Read]\n"), files: notes,
		replies: []modeltest.Reply{readNotes, modeltest.Stream(modeltest.Text("Buy milk and call Ada."))},
		runs:    []leg{{body: `{"message": "What do I have to do?"}`}},
	},
	{
		name: "all-tools", about: "The definitions of all built-in tools. The limit of the request ends the run at a tool call.",
		agents: yaml("    permissionMode: acceptEdits\n"), full: true,
		files: append([]givenFile{{".agents/skills/rhyme/SKILL.md",
			"---\nname: rhyme\ndescription: Makes rhymes.\n---\nEnd lines alike.\n"}}, notes...),
		replies: []modeltest.Reply{readNotes},
		runs:    []leg{{body: `{"message": "What do I have to do?", "maxTurns": 1}`}},
	},
	{
		name: "thinking", about: "The model thinks before it calls a tool. The thinking is sent back upstream with its signature, which clients never receive.",
		agents: yaml("    maxOutputTokens: 4096\n    thinking: {budgetTokens: 1024}\n    allowedTools: [Read]\n"), files: notes,
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.Thinking("The notes ", "say it."), modeltest.Signature("c2lnbmVk"), modeltest.Redacted("aGlkZGVu"),
				modeltest.ToolCall("toolu_1", "Read", `{"file_path":"notes.txt"}`)),
			modeltest.Stream(modeltest.Text("Buy milk.")),
		},
		runs: []leg{{body: `{"message": "What do I have to do?"}`}},
	},
	{
		name: "refused-tool", about: "A call that the agent's permissions deny. The model receives the reason and continues.",
		agents: yaml("    allowedTools: [\"Bash(git *)\"]\n"),
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "Bash", `{"command":"rm -r ."}`)),
			modeltest.Stream(modeltest.Text("I may not do that.")),
		},
		runs: []leg{{body: `{"message": "Tidy up."}`}},
	},
	{
		name: "subagent", about: "A task for a subagent. It starts with only its prompt. Its events carry the id of the call, and its last text is the result.",
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
		name: "mcp-tool", about: "A tool of an MCP server. The server is connected before the first model call.",
		agents: yaml("    allowedTools: [mcp__weather]\n    mcpServers:\n      weather: {transport: http, url: \"https://mcp.example/mcp\"}\n"),
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "mcp__weather__now", `{"place":"Riga"}`)),
			modeltest.Stream(modeltest.Text("It rains in Riga.")),
		},
		runs: []leg{{body: `{"message": "How is the weather in Riga?"}`}},
	},
	{
		name: "skill", about: "The system prompt lists the skills, and the model loads one.",
		agents: yaml("    systemPrompt: You write.\n    allowedTools: [Skill]\n"),
		files:  []givenFile{{".agents/skills/rhyme/SKILL.md", "---\nname: rhyme\ndescription: Makes rhymes.\n---\nEnd lines alike.\n"}},
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.ToolCall("toolu_1", "Skill", `{"skill":"rhyme"}`)),
			modeltest.Stream(modeltest.Text("The cat\nwore a hat.")),
		},
		runs: []leg{{body: `{"message": "Write me a rhyme."}`}},
	},
	{
		name: "cancelled-and-resumed", about: "A run is cancelled during a tool call. The next run of the session reports the interrupted call to the model.",
		agents: yaml("    allowedTools: [\"Bash(sleep *)\"]\n"),
		replies: []modeltest.Reply{
			modeltest.Stream(modeltest.Text("I wait."), modeltest.ToolCall("toolu_1", "Bash", `{"command":"sleep 1000"}`)),
			modeltest.Stream(modeltest.Text("I waited, but not to the end.")),
		},
		runs: []leg{{body: `{"message": "Wait a while."}`, cancelAt: "assistant"},
			{body: `{"message": "Enough?", "sessionId": "SESSION-1"}`}},
	},
	{
		name: "max-turns", about: "The response of the last turn calls a tool, which is not executed.",
		agents: yaml("    maxTurns: 2\n    allowedTools: [Read]\n"), files: notes,
		replies: []modeltest.Reply{readNotes,
			modeltest.Stream(modeltest.Text("Once more."), modeltest.ToolCall("toolu_2", "Read", `{"file_path":"notes.txt"}`))},
		runs: []leg{{body: `{"message": "What do I have to do?"}`}},
	},
	{
		name: "compaction", about: "A conversation approaches the context window. A summary by the model replaces the earlier messages.",
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
		name: "upstream-errors", about: "The upstream rejects a request, and then fails during a response. Neither request is retried, and the stored messages remain.",
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
		name: "openai-tool-call", about: "A tool call in the protocol of OpenAI.", protocol: modeltest.OpenAI,
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

// sea has about a hundred tokens and exceeds a fifth of a window of 600.
const sea = `The sea is wide and grey in the morning, and the boats come home with the tide. The gulls know it before the men do:
they cry above the harbour, and whoever sleeps wakes up. Then the nets are hung to dry, the fish are counted, and the price
is made on the quay, where it has been made for three hundred years. In the evening the sea is blue, and nobody looks at it.
Whoever was counted in the morning is counted again, and the lamps are lit from the quay up to the church on the hill.
`

// weather is a server with one tool.
func weather() tool.Server {
	return &shelf{name: "weather", state: tool.Pending, list: &tool.List{Tools: []tool.Tool{answering("mcp__weather__now", "The weather in a place.",
		`{"additionalProperties":false,"properties":{"place":{"description":"name of a town","type":"string"}},"required":["place"],"type":"object"}`,
		func(input map[string]string) string { return input["place"] + ": rain, 9 °C" })}}}
}
