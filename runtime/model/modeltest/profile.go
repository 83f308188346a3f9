package modeltest

import "strings"

// Profiles of servers that speak Chat Completions. Each streams in the form of that server and
// rejects the requests that it rejects, as its documentation and published error reports describe.
const (
	DeepSeek   Protocol = "deepseek"   // thinking mode: reasoning_content in every turn with tool calls
	Gemini     Protocol = "gemini"     // thought signatures in the current turn; every call has index 0; strict fields
	Mistral    Protocol = "mistral"    // strict fields, no stream_options, ids of nine characters, no user message after a tool message
	Kimi       Protocol = "kimi"       // reasoning_content in every assistant message, not empty next to tool calls
	Ollama     Protocol = "ollama"     // complete calls with index 0, finish reason stop
	OpenRouter Protocol = "openrouter" // reasoning_details must be sent back complete
	Azure      Protocol = "azure"      // header api-key, api-version, strict fields, max_completion_tokens
	VLLM       Protocol = "vllm"       // an assistant message has the key content
	Groq       Protocol = "groq"       // strict fields of messages, usage in x_groq
)

// DeepSeekMessages is DeepSeek's Anthropic-compatible API: thinking has no signature and must be
// sent back.
const DeepSeekMessages Protocol = "deepseek-messages"

// profile is a server that speaks Chat Completions.
type profile struct {
	openai
	protocol  Protocol
	path      string // before /chat/completions
	query     string // of the base URL
	thinking  string // the field of thinking in a delta
	complete  bool   // a tool call is one fragment
	zeroIndex bool   // every tool call has index 0
	rules     []rule
}

// rule checks what a server rejects beyond the format.
type rule func(*Request, *profileRequest) *refusal

func profileOf(p Protocol) (format, bool) {
	known := map[Protocol]profile{
		DeepSeek: {thinking: "reasoning_content", rules: []rule{reasoningOfTurns}},
		Kimi:     {thinking: "reasoning_content", rules: []rule{reasoningOfMessages}},
		Gemini: {path: "/v1beta/openai", complete: true, zeroIndex: true,
			rules: []rule{onlyFields(geminiMessage, geminiCall, geminiUnknown), thoughtSignatures}},
		Mistral: {thinking: "content", complete: true, rules: []rule{
			onlySettings(mistralSettings), onlyFields(mistralMessage, mistralCall, mistralUnknown), noUserAfterTool, shortCallIDs,
		}},
		Ollama:     {thinking: "reasoning", complete: true, zeroIndex: true, rules: []rule{contentOrCalls}},
		OpenRouter: {path: "/api/v1", thinking: "reasoning", rules: []rule{completeDetails}},
		Azure: {path: "/openai/deployments/m", query: "?api-version=2024-10-21", rules: []rule{
			apiKeyHeader, apiVersion, noMaxTokens, onlyFields(openaiMessageFields, openaiCallFields, openaiUnknown),
		}},
		VLLM: {thinking: "reasoning", rules: []rule{contentKey}},
		Groq: {path: "/openai/v1", thinking: "reasoning", rules: []rule{onlyFields(groqMessage, openaiCallFields, groqUnknown)}},
	}
	s, ok := known[p]
	s.protocol = p
	if s.path == "" {
		s.path = "/v1"
	}
	return s, ok
}

func (p profile) base() string { return p.path + p.query }

func (p profile) check(r *Request) (options, *refusal) {
	path := p.path
	if p.protocol == Azure && strings.HasPrefix(r.Path, "/openai/v1/") {
		path = "/openai/v1" // the newer form, without an api-version
	}
	opts, refused := checkChat(r, path+"/chat/completions")
	if refused != nil {
		return opts, refused
	}
	q, refused := newProfileRequest(r)
	for _, check := range p.rules {
		if refused == nil {
			refused = check(r, q)
		}
	}
	return opts, refused
}

func (p profile) encoder(usage bool) encoder {
	return &profileEncoder{openaiEncoder: openaiEncoder{usage: usage || p.protocol == Mistral, index: -1}, profile: p}
}

// messagesProfile is a compatible server that speaks the Messages API.
type messagesProfile struct{ anthropic }

func (messagesProfile) base() string { return "/anthropic" }

// check always requires thinking: thinking mode is on unless a request disables it.
func (messagesProfile) check(r *Request) (options, *refusal) {
	if refused := endpoint(r, "/anthropic/v1/messages", "Not Found"); refused != nil {
		return options{}, refused
	}
	return checkMessages(r, true)
}
