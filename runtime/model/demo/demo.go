// Package demo is a model that needs no key and no network. It streams a response that identifies
// it as the demo model and echoes the message, so that a program can be tried without a real model.
//
//	/tool NAME {json}   calls the tool with the input, then quotes its result
//	/think TEXT         streams thinking before the text
//
// The same request always has the same response.
package demo

import (
	"context"
	"iter"
	"time"
	"unicode"

	"github.com/seed93082962/agenthost/runtime/model"
)

// New returns a demo model. The delay is the time between two tokens.
func New(delay time.Duration) model.Model { return &demo{delay} }

type demo struct{ delay time.Duration }

// Stream implements [model.Model].
func (d *demo) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		s := stream{ctx: ctx, delay: d.delay, limit: req.MaxOutputTokens, yield: yield}
		s.usage.InputTokens = inputTokens(req)
		s.play(respond(req))
	}
}

// segment is a part of the response that is sent token by token.
type segment struct {
	kind     model.PartKind
	id, name string // of a tool call, which begins with this segment
	text     string
}

// stream sends one response.
type stream struct {
	ctx   context.Context
	delay time.Duration
	limit int // of output tokens, 0 for none
	usage model.Usage
	yield func(model.Part, error) bool
}

func (s *stream) play(segments []segment) {
	if !s.send(model.Part{Kind: model.KindUsage, Usage: s.usage, More: true}) {
		return
	}

	reason := model.StopEndTurn
	for i, seg := range segments {
		last := i == len(segments)-1
		if seg.name != "" && !s.full() {
			reason = model.StopToolUse
			if !s.token(model.Part{Kind: model.KindToolUse, Index: i, ID: seg.id, Name: seg.name}, false) {
				return
			}
		}

		runes := max(wordRunes, len(seg.text)/maxTokens)
		for rest := seg.text; rest != ""; {
			if s.full() {
				s.finish(model.StopMaxTokens)
				return
			}

			var token string
			token, rest = cut(rest, runes)
			if !s.token(model.Part{Kind: seg.kind, Index: i, Text: token}, last && rest == "") {
				return
			}
		}
	}

	s.finish(reason)
}

func (s *stream) finish(reason string) {
	if s.send(model.Part{Kind: model.KindUsage, Usage: s.usage, More: true}) {
		s.send(model.Part{Kind: model.KindStop, StopReason: reason})
	}
}

func (s *stream) full() bool { return s.limit > 0 && s.usage.OutputTokens >= int64(s.limit) }

// token sends one token after the delay. More is set if the next part follows without a delay.
func (s *stream) token(p model.Part, last bool) bool {
	if s.usage.OutputTokens > 0 && s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-s.ctx.Done():
		}
	}

	s.usage.OutputTokens++
	p.More = s.delay == 0 || last || s.full()
	return s.send(p)
}

// send reports whether to continue. It yields the cause if the context has ended.
func (s *stream) send(p model.Part) bool {
	if s.ctx.Err() != nil {
		s.yield(model.Part{}, context.Cause(s.ctx))
		return false
	}

	return s.yield(p, nil)
}

const (
	// wordRunes bounds a token: longer words are split.
	wordRunes = 12
	// maxTokens bounds the number of tokens of a text: a longer text, such as the input of a tool
	// call, has longer tokens.
	maxTokens = 1000
)

// cut returns the first token of a text and the rest. A token is a word with the white space before
// it, limited to most runes. The tokens of a long text are not split at words.
func cut(text string, most int) (string, string) {
	word, runes := false, 0
	for i, r := range text {
		if runes == most || word && most == wordRunes && unicode.IsSpace(r) {
			return text[:i], text[i:]
		}

		word = word || !unicode.IsSpace(r)
		runes++
	}

	return text, ""
}

// imageBytes is the size of a text with as many tokens as an image.
const imageBytes = 6400

// inputTokens estimates the tokens of a request: one for four bytes of text, or for 48 of a PDF.
func inputTokens(req *model.Request) int64 {
	n := len(req.System)
	for i := range req.Messages {
		for j := range req.Messages[i].Content {
			b := &req.Messages[i].Content[j]
			n += len(b.Text) + len(b.Name) + len(b.Input) + len(b.Images)*imageBytes + len(b.PDF)/12
		}
	}

	for i := range req.Tools {
		t := &req.Tools[i]
		n += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}

	return int64(n/4 + 1)
}
