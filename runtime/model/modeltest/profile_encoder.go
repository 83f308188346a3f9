package modeltest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/runtime/model"
)

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
