package modeltest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
)

// Profiles of servers that speak Chat Completions. Each streams in the form of that server and
// rejects the requests that it rejects, as its documentation and published error reports describe.
const (
	DeepSeek   Protocol = "deepseek"   // thinking mode: reasoning_content in every turn with tool calls; no images, no schemas, no tool_choice
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
		DeepSeek: {thinking: "reasoning_content", rules: []rule{onlyTexts, onlyObjects, freeChoice, reasoningOfTurns}},
		Kimi:     {thinking: "reasoning_content", rules: []rule{reasoningOfMessages}},
		Gemini: {path: "/v1beta/openai", complete: true, zeroIndex: true,
			rules: []rule{
				onlyFields(geminiMessage, geminiCall, geminiUnknown), thoughtSignatures,
				formatOrTools("Function calling with a response mime type: 'application/json' is unsupported"),
			}},
		Mistral: {thinking: "content", complete: true, rules: []rule{
			onlySettings(mistralSettings), onlyFields(mistralMessage, mistralCall, mistralUnknown), noUserAfterTool, shortCallIDs,
		}},
		Ollama:     {thinking: "reasoning", complete: true, zeroIndex: true, rules: []rule{contentOrCalls}},
		OpenRouter: {path: "/api/v1", thinking: "reasoning", rules: []rule{completeDetails}},
		Azure: {path: "/openai/deployments/m", query: "?api-version=2024-10-21", rules: []rule{
			apiKeyHeader, apiVersion, noMaxTokens, shortDescriptions, longCallIDs, onlyFields(openaiMessageFields, openaiCallFields, openaiUnknown),
		}},
		VLLM: {thinking: "reasoning", rules: []rule{contentKey}},
		Groq: {path: "/openai/v1", thinking: "reasoning", rules: []rule{
			onlyFields(groqMessage, openaiCallFields, groqUnknown), formatOrTools("json mode cannot be combined with tool/function calling"),
		}},
	}
	s, ok := known[p]
	s.protocol = p
	if s.path == "" {
		s.path = "/v1"
	}

	return s, ok
}

func (p profile) base() string { return p.path + p.query }

func (p profile) check(r *Request) (bool, *refusal) {
	path := p.path
	if p.protocol == Azure && strings.HasPrefix(r.Path, "/openai/v1/") {
		path = "/openai/v1" // the newer form, without an api-version
	}

	usage, refused := checkChat(r, path+"/chat/completions")
	if refused != nil {
		return usage, refused
	}

	q, refused := newProfileRequest(r)
	for _, check := range p.rules {
		if refused == nil {
			refused = check(r, q)
		}
	}

	return usage, refused
}

func (p profile) encoder(usage bool) encoder {
	return &profileEncoder{openaiEncoder: openaiEncoder{usage: usage || p.protocol == Mistral, index: -1}, profile: p}
}

// messagesProfile is a compatible server that speaks the Messages API.
type messagesProfile struct{ anthropic }

func (messagesProfile) base() string { return "/anthropic" }

// check always requires thinking: thinking mode is on unless a request disables it.
func (messagesProfile) check(r *Request) (bool, *refusal) {
	if refused := endpoint(r, "/anthropic/v1/messages", "Not Found"); refused != nil {
		return false, refused
	}

	return checkMessages(r, true)
}

// profileEncoder writes a stream in the form of one server.
type profileEncoder struct {
	openaiEncoder
	profile profile
	signed  bool // Gemini: the response has a thought signature
}

func (e *profileEncoder) begin(u model.Usage) []byte {
	switch e.profile.protocol {
	case Kimi:
		return e.delta(`{"role":"assistant","content":"","reasoning_content":""}`)
	case Azure:
		b := e.chunk(nil, "[]", `null,"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]`)
		return append(b, e.openaiEncoder.begin(u)...)
	case DeepSeek:
		return e.delta(`{"role":"assistant","content":null,"reasoning_content":""}`)
	case OpenRouter:
		return append([]byte(": OPENROUTER PROCESSING\n\n"), e.openaiEncoder.begin(u)...)
	}

	return e.openaiEncoder.begin(u)
}

func (e *profileEncoder) thinking(s string) []byte {
	text := quote(s)
	switch {
	case e.profile.protocol == OpenRouter:
		return e.delta(`{"content":"","reasoning":` + text +
			`,"reasoning_details":[{"type":"reasoning.text","text":` + text + `,"format":"unknown","index":0}]}`)
	case e.profile.thinking == "content":
		return e.delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":` + text + `}]}]}`)
	case e.profile.thinking == "":
		return nil
	}

	return e.delta(`{"content":null,` + quote(e.profile.thinking) + `:` + text + `}`)
}

func (e *profileEncoder) completeCall(id, name, input string) ([]byte, bool) {
	if !e.profile.complete {
		return nil, false
	}

	e.index++
	extra, index := "", e.index
	if e.profile.protocol == Gemini && !e.signed {
		e.signed = true
		extra = `,"extra_content":{"google":{"thought_signature":` + quote(thoughtSignature(id)) + `}}`
	}

	if e.profile.zeroIndex {
		index = 0
	}

	return e.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":%s}%s}]}`,
		index, quote(id), quote(name), quote(input), extra)), true
}

func (e *profileEncoder) stop(reason string, u model.Usage) []byte {
	if e.profile.protocol == Ollama && reason == model.StopToolUse {
		reason = model.StopEndTurn
	}

	end := e.openaiEncoder.stop(reason, u)
	switch e.profile.protocol {
	case Azure: // of the asynchronous content filter: a choice without a delta
		filter := e.chunk(nil, `[{"index":0,"finish_reason":null,"content_filter_results":{},`+
			`"content_filter_offsets":{"check_offset":0,"start_offset":0,"end_offset":1}}]`, "null")
		return append(filter, end...)
	case Groq: // the usage is also in x_groq, and without the option only there
		counts := fmt.Sprintf(`,"x_groq":{"id":"req_modeltest","usage":{"queue_time":0.1,"prompt_tokens":%d,"completion_tokens":%d}}}`,
			u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens, u.OutputTokens)
		head, tail, _ := bytes.Cut(end, []byte("}\n\n"))
		return slices.Concat(head, []byte(counts+"\n\n"), tail)
	}

	return end
}

// thoughtSignature returns the signature of Gemini's call with that id.
func thoughtSignature(id string) string { return "c2ln+" + id + "/==" }
