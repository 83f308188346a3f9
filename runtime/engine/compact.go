package engine

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// summaryRequest is what the model is asked when a conversation comes near the context window.
const summaryRequest = `The conversation so far is about to be replaced by a summary of it, which you write now. Whoever goes on with the work will
see the summary and the last messages alone. Write down, in this order and as briefly as completeness allows:
1. what the user wants, in their words where they matter, with every constraint and preference they gave
2. what was done and found out, with exact names, paths, numbers and error messages
3. what was decided, and why
4. what is left to do, and the very next step
Answer with the summary alone, and call no tool.`

// summaryHead and requestHead mark what stands in place of the messages that were summarised.
const (
	summaryHead = "This is a summary of the conversation so far:\n\n"
	requestHead = "\n\nThe request that is being worked on:\n\n"
)

// fill keeps count of how much of the context window a conversation takes.
type fill struct {
	tokens int64 // of the messages that were counted
	upTo   int   // how many were
	off    bool  // a summary failed: the run goes on without one
}

// count takes in what upstream has counted: all messages of a call, and its answer. system and
// tools are in it too.
func (f *fill) count(u model.Usage, messages int) {
	if sum := u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens + u.OutputTokens; sum > 0 {
		f.tokens, f.upTo = sum, messages
	}
}

// add estimates what upstream has not counted yet.
func (f *fill) add(messages []model.Message) int64 {
	if f.upTo > len(messages) {
		f.upTo, f.tokens = 0, 0
	}
	for ; f.upTo < len(messages); f.upTo++ {
		f.tokens += estimate(&messages[f.upTo])
	}
	return f.tokens
}

// estimate guesses the tokens of a message: four bytes of ASCII each, two of anything else.
func estimate(m *model.Message) int64 {
	n := 0
	for i := range m.Content {
		b := &m.Content[i]
		for _, s := range []string{b.Text, b.Data, string(b.Input)} {
			n += len(s)
			for j := range len(s) {
				if s[j] >= utf8.RuneSelf {
					n++
				}
			}
		}
	}
	return int64(n)/4 + 8
}

// full tells whether the next call might not fit the window with its answer.
func (r *Run) full(said *transcript) bool {
	window := int64(r.engine.cfg.ContextWindow)
	room := max(window/5, min(int64(r.engine.cfg.Request.MaxOutputTokens)+window/20, window/2))
	return !r.fill.off && r.fill.add(said.messages) > window-room
}

// compact puts a summary in place of the older messages, if there are enough of them. Without a summary the run goes on as it is.
func (r *Run) compact(ctx context.Context, said *transcript, yield func(wire.Event) bool) error {
	window := int64(r.engine.cfg.ContextWindow)
	cut := keepFrom(said.messages, window/5)
	gain := int64(0)
	for i := range said.messages[:cut] {
		gain += estimate(&said.messages[i])
	}
	if gain < window/10 {
		return nil // a summary would hardly be shorter
	}
	summary, err := r.summarise(ctx, said.messages[:cut])
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.fill.off = true
		r.engine.cfg.Logger.Warn("conversation is not summarised", "err", err, "runId", r.in.RunID)
		return goOn(yield(wire.Event{Payload: &wire.System{
			Type: "system", Subtype: wire.SystemWarning, Message: fmt.Sprintf("The conversation could not be summarised: %s.", reason(err)),
		}}))
	}
	text := summaryHead + summary
	if r.asked < cut {
		text += requestHead + r.in.Message
	}
	short := &transcript{}
	short.add(model.UserText(text))
	for _, m := range said.messages[cut:] {
		short.add(m)
	}
	if err := r.in.Session.Compact(ctx, short.messages); err != nil {
		return fmt.Errorf("compact session: %w", err)
	}
	before := r.fill.tokens
	*said, r.asked, r.fill = *short, max(0, r.asked-cut), fill{}
	return goOn(yield(wire.Event{Payload: &wire.System{
		Type: "system", Subtype: wire.SystemCompactBoundary,
		CompactMetadata: &wire.CompactMetadata{Trigger: "auto", PreTokens: before, PostTokens: r.fill.add(said.messages)},
	}}))
}

func goOn(yes bool) error {
	if !yes {
		return errStopped
	}
	return nil
}

// keepFrom finds where the part of a conversation begins that is kept word for word: as much as
// budget allows, and no result without its call. 0 says that there is nothing to cut off.
func keepFrom(messages []model.Message, budget int64) int {
	from := 0
	for i := len(messages) - 1; i > 0; i-- {
		if budget -= estimate(&messages[i]); budget < 0 && from > 0 {
			break
		}
		if m := &messages[i]; m.Role == model.RoleAssistant || len(m.Content) > 0 && m.Content[0].Type == model.BlockText {
			from = i
		}
	}
	return from
}

// summarise asks the model for a summary. System prompt and tools are those of every call, so that
// upstream has the beginning of the conversation in its cache.
func (r *Run) summarise(ctx context.Context, messages []model.Message) (string, error) {
	asking := &transcript{}
	for _, m := range messages {
		asking.add(m)
	}
	asking.add(model.UserText(summaryRequest))
	w := watch(ctx, r.engine.cfg.IdleTimeout)
	defer w.stop()
	answer, err := model.Collect(r.engine.cfg.Model.Stream(w.ctx, r.request(asking.messages, w.alive)))
	r.outcome.Usage = r.outcome.Usage.Add(answer.Usage)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(answer.Message.Text())
	if text == "" {
		return "", &model.Error{Code: model.CodeUnknown, Message: "the model answered without a text"}
	}
	return text, nil
}
