// Package demo is a model that needs no key and no network. It streams a response that identifies
// it as the demo model and echoes the message, so that a program can be tried without a real model.
//
//	/tool NAME {json}   calls the tool with the input, then quotes its result
//	/think TEXT         streams thinking before the text
//
// The same request always has the same response.
package demo

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// Config configures a demo model. Its zero value is ready for use.
type Config struct {
	// Delay is the time between two tokens. Defaults to 15ms; negative means none.
	Delay time.Duration
}

// New returns a demo model.
func New(cfg Config) model.Model {
	return &demo{delay: max(0, cmp.Or(cfg.Delay, 15*time.Millisecond))}
}

type demo struct{ delay time.Duration }

// Stream implements [model.Model].
func (d *demo) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		s := stream{ctx: ctx, delay: d.delay, limit: req.MaxOutputTokens, yield: yield}
		defer s.stop()
		s.usage.InputTokens = inputTokens(req)
		s.play(respond(req))
	}
}

// segment is a part of the response that is sent token by token.
type segment struct {
	kind     model.Kind
	id, name string // of a tool call, which begins with this segment
	text     string
}

// stream sends one response.
type stream struct {
	ctx   context.Context
	delay time.Duration
	timer *time.Timer
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
		runes := longest(seg.text)
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
		s.wait()
	}
	s.usage.OutputTokens++
	p.More = s.delay == 0 || last || s.full()
	return s.send(p)
}

func (s *stream) wait() {
	if s.timer == nil {
		s.timer = time.NewTimer(s.delay)
	} else {
		s.timer.Reset(s.delay)
	}
	select {
	case <-s.timer.C:
	case <-s.ctx.Done():
	}
}

// send reports whether to continue. It yields the cause if the context has ended.
func (s *stream) send(p model.Part) bool {
	if s.ctx.Err() != nil {
		s.yield(model.Part{}, context.Cause(s.ctx))
		return false
	}
	return s.yield(p, nil)
}

func (s *stream) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
