package modeltest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// format is the wire format of an upstream.
type format interface {
	base() string                              // path of the base URL
	check(*Request) (usage bool, r *refusal)   // rejects a request that the vendor would reject
	header(http.Header)                        // of a streamed response
	encoder(usage bool) encoder                // of one streamed response
	failure(status int, message string) []byte // body of an error; "" selects a default message
	tooLong() (int, []byte)
}

// encoder turns the steps of one response into events. Each call returns whole events, or nil.
type encoder interface {
	begin(model.Usage) []byte
	text(string) []byte
	thinking(string) []byte
	signature(string) []byte
	redacted(string) []byte
	toolCall(id, name string) []byte
	toolInput(string) []byte
	ping() []byte
	fail(errorType string) []byte
	stop(reason string, u model.Usage) []byte
}

// refusal is the reason why a request is rejected.
type refusal struct {
	status  int
	message string
}

func formatOf(p Protocol) format {
	switch p {
	case Anthropic:
		return anthropic{}
	case OpenAI:
		return openai{}
	case DeepSeekMessages:
		return messagesProfile{}
	}

	if f, ok := profileOf(p); ok {
		return f
	}

	panic("modeltest: unknown protocol " + string(p))
}

type opKind uint8

const (
	opWrite opKind = iota + 1
	opWait
	opGate
	opHang
	opDrop
)

// op is one step of a compiled reply.
type op struct {
	kind opKind
	data []byte
	wait time.Duration
	gate <-chan struct{}
}

type compiler struct {
	enc   encoder
	burst bool
	begun bool
	usage model.Usage
	pace  time.Duration
	ops   []op
}

func compile(enc encoder, steps []Step, burst bool) []op {
	c := &compiler{enc: enc, burst: burst, usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
	reason := model.StopEndTurn
	for i := range steps {
		switch steps[i].kind {
		case kindUsage:
			c.usage = steps[i].usage
		case kindToolCall:
			reason = model.StopToolUse
		}
	}

	for i := range steps {
		if c.step(&steps[i]) {
			return c.ops
		}

		if steps[i].kind == kindStop {
			reason = ""
		}
	}

	if reason != "" {
		c.begin()
		c.write(enc.stop(reason, c.usage))
	}

	return c.ops
}

// step reports whether the reply ends with the step.
func (c *compiler) step(s *Step) bool {
	switch s.kind {
	case kindUsage:
		return false
	case kindPace:
		c.pace = s.wait
		return false
	case kindWait:
		c.ops = append(c.ops, op{kind: opWait, wait: s.wait})
		return false
	case kindGate:
		c.ops = append(c.ops, op{kind: opGate, gate: s.gate})
		return false
	case kindHang:
		c.ops = append(c.ops, op{kind: opHang})
		return true
	case kindDrop:
		c.ops = append(c.ops, op{kind: opDrop})
		return true
	case kindCut:
		c.begin()
		return true
	}

	c.begin()
	switch s.kind {
	case kindText:
		c.each(s.texts, c.enc.text)
	case kindThinking:
		c.each(s.texts, c.enc.thinking)
	case kindSignature:
		c.each(s.texts, c.enc.signature)
	case kindRedacted:
		c.each(s.texts, c.enc.redacted)
	case kindToolCall:
		if e, ok := c.enc.(interface {
			completeCall(id, name, input string) ([]byte, bool)
		}); ok {
			if data, ok := e.completeCall(s.id, s.name, strings.Join(s.texts, "")); ok {
				c.write(data)
				return false
			}
		}

		c.write(c.enc.toolCall(s.id, s.name))
		c.each(s.texts, c.enc.toolInput)
	case kindToolInput:
		c.each(s.texts, c.enc.toolInput)
	case kindStop:
		c.write(c.enc.stop(s.name, c.usage))
	case kindPing:
		c.write(c.enc.ping())
	case kindError:
		c.write(c.enc.fail(s.name))
		return true
	case kindVerbatim:
		c.write([]byte(s.texts[0]))
	default:
		panic("modeltest: a Step was not made by this package")
	}

	return false
}

func (c *compiler) begin() {
	if !c.begun {
		c.begun = true
		c.write(c.enc.begin(c.usage))
	}
}

func (c *compiler) each(texts []string, encode func(string) []byte) {
	for _, s := range texts {
		if c.pace > 0 {
			c.ops = append(c.ops, op{kind: opWait, wait: c.pace})
		}

		c.write(encode(s))
	}
}

func (c *compiler) write(data []byte) {
	if len(data) == 0 {
		return
	}

	if n := len(c.ops); c.burst && n > 0 && c.ops[n-1].kind == opWrite {
		c.ops[n-1].data = append(c.ops[n-1].data, data...)
		return
	}

	c.ops = append(c.ops, op{kind: opWrite, data: data})
}

// quote returns s as JSON without escapes for < > &, as the vendors write it.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err)
	}

	return string(bytes.TrimRight(b.Bytes(), "\n"))
}

func writeError(w http.ResponseWriter, f format, status int, message string) {
	writeJSON(w, status, f.failure(status, message))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}
