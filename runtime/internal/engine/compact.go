package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// summaryRequest is the message that requests a summary from the model.
const summaryRequest = `The conversation so far is about to be replaced by a summary, which you write now. The task will be continued with only
the summary and the last messages. Write down, in this order and as briefly as completeness allows:
1. the request of the user, literally where the wording matters, with every constraint and preference
2. all actions and findings, with exact names, paths, numbers and error messages
3. the decisions, and the reasons for them
4. the remaining tasks, and the next step
Respond with only the summary, and do not call tools.`

// summaryHead and requestHead introduce the parts of the message that replaces older ones.
const (
	summaryHead = "This is a summary of the conversation so far:\n\n"
	requestHead = "\n\nThe current request:\n\n"
)

// fill is the part of the context window that a conversation uses.
type fill struct {
	tokens int64 // of the counted messages
	upTo   int   // number of counted messages
	off    bool  // a summary failed: the run does not try again
}

// count records the usage that upstream reported for a call. It includes the system prompt, the
// tools and the response.
func (f *fill) count(u model.Usage, messages int) {
	if sum := u.Input() + u.OutputTokens; sum > 0 && !u.Estimated {
		f.tokens, f.upTo = sum, messages
	}
}

// add adds estimates for the messages after the counted ones, and returns the sum.
func (f *fill) add(messages []model.Message) int64 {
	if f.upTo > len(messages) {
		f.upTo, f.tokens = 0, 0
	}

	for ; f.upTo < len(messages); f.upTo++ {
		f.tokens += estimate(&messages[f.upTo])
	}

	return f.tokens
}

// estimate estimates the tokens of a message.
func estimate(m *model.Message) int64 {
	n := int64(8)
	for i := range m.Content {
		b := &m.Content[i]
		n += collect.EstimateTokens(b.Text) + collect.EstimateTokens(b.Data) + collect.EstimateTokens(b.Input) + binaryTokens(b)
	}

	return n
}

func estimateAll(messages []model.Message) int64 {
	n := int64(0)
	for i := range messages {
		n += estimate(&messages[i])
	}

	return n
}

// compactIfFull compacts the conversation if the next request and its response might exceed the
// context window.
func (r *runState) compactIfFull(ctx context.Context) error {
	room := max(r.window/5, min(int64(r.engine.cfg.Request.MaxOutputTokens)+r.window/20, r.window/2))
	if r.fill.off || r.fill.add(r.transcript.messages) <= r.window-room {
		return nil
	}

	if err := r.awaitFirstAppend(); err != nil {
		return err
	}

	return r.compact(ctx)
}

// compact replaces the older messages with a summary and truncates the remaining ones to half of
// the window. It does nothing if that would save less than a tenth of the window. If the summary
// fails, the conversation is unchanged and the run continues.
func (r *runState) compact(ctx context.Context) error {
	messages := r.transcript.messages
	cut := recentFrom(messages, r.window/5)
	older := estimateAll(messages[:cut])
	if older < r.window/10 {
		cut, older = 0, 0 // a summary would hardly be shorter
	}

	recent := shorten(messages[cut:], r.window/2, &r.in)
	if older+estimateAll(messages[cut:])-estimateAll(recent) < r.window/10 {
		return nil
	}

	short := &transcript{}
	if cut > 0 {
		summary, err := r.summarise(ctx, messages[:cut])
		if err != nil {
			return r.continueUncompacted(ctx, err)
		}

		head := model.UserText(summaryHead + summary)
		if r.question < cut {
			request := r.in.message()
			head.Content[0].Text += requestHead + request.Text()
			head.Content = append(head.Content, binaries(messages[r.question].Content)...)
		}

		short.add(head)
		recent = shorten(messages[cut:], r.window/2, &r.in) // the window may be smaller now
	}

	for _, m := range recent {
		short.add(m)
	}

	if err := r.in.Session.Compact(ctx, short.messages); err != nil {
		return fmt.Errorf("compact session: %w", err)
	}

	before := r.fill.tokens
	r.question = max(0, r.question-cut+len(short.messages)-len(recent))
	r.transcript, r.fill = short, fill{}
	r.out.Emit(&wire.System{
		Type: "system", Subtype: runvalue.SystemCompactBoundary,
		CompactMetadata: &wire.CompactMetadata{Trigger: "auto", PreTokens: before, PostTokens: r.fill.add(short.messages)},
	})
	return nil
}

// continueUncompacted emits a warning about a failed summary. Later turns of the run do not try
// again.
func (r *runState) continueUncompacted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	r.fill.off = true
	r.engine.cfg.Logger.Warn("conversation is not summarised", "err", err, "run_id", r.in.RunID)
	r.out.Emit(&wire.System{
		Type: "system", Subtype: runvalue.SystemWarning, Message: fmt.Sprintf("The conversation could not be summarised: %s.", publicText(err)),
	})
	return nil
}

// recentFrom returns the index of the first message that is not summarised. The messages from there
// on take at most budget tokens and include the calls of all their results. 0 means that no message
// can be summarised.
func recentFrom(messages []model.Message, budget int64) int {
	from := 0
	for i := len(messages) - 1; i > 0; i-- {
		if budget -= estimate(&messages[i]); budget < 0 && from > 0 {
			break
		}

		if m := &messages[i]; m.Role == model.RoleAssistant || len(m.Content) > 0 && m.Content[0].Type != model.BlockToolResult {
			from = i
		}
	}

	return from
}

// summarise calls the model for a summary. Messages that take more than three quarters of the
// window are shortened first, and again whenever upstream rejects the request because of its size.
func (r *runState) summarise(ctx context.Context, messages []model.Message) (string, error) {
	for {
		input := shorten(messages, r.window*3/4, nil)
		summary, err := r.callForSummary(ctx, input)
		if !tooLong(err) || !r.halveWindow(estimateAll(input)) {
			return summary, err
		}
	}
}

// callForSummary calls the model for a summary. It sends the same system prompt and tools as other
// calls, so that upstream can read the prefix of the conversation from its cache.
func (r *runState) callForSummary(ctx context.Context, messages []model.Message) (string, error) {
	request := &transcript{}
	for _, m := range messages {
		request.add(m)
	}

	request.add(model.UserText(summaryRequest))
	if err := r.holdMessages(request.messages); err != nil {
		return "", err
	}

	call := r.beginModelCall(ctx, request.messages)
	var response collect.Response
	err := errPanicked
	defer func() { call.end(&response, err) }()
	w := startWatchdog(call.ctx, r.engine.cfg.IdleTimeout)
	defer w.stop()
	response, err = call.response.Collect(r.stream(w, call, request.messages, nil))
	if err != nil {
		return "", err
	}

	text := strings.TrimSpace(response.Message.Text())
	if text == "" {
		return "", &model.Error{Code: runvalue.ErrorTypeUnknown, Message: "the response of the model has no text"}
	}

	return text, nil
}

// maxRejections is the number of requests of one run that may be rejected for their size before the
// run fails. Each rejection halves the window, so six of them reach 1/64 of it.
const maxRejections = 6

// tooLong reports whether upstream rejected a request for its size.
func tooLong(err error) bool {
	upstream, ok := errors.AsType[*model.Error](err)
	return ok && upstream.Code == runvalue.ErrorTypePromptTooLong
}

// recoverRejected changes a conversation that upstream rejected, or the form of the output, so that
// it accepts the next request of this run and of later runs of the session. It returns nil if it
// did, and otherwise err, the error of the call. The rejected request does not count as a turn.
func (r *runState) recoverRejected(ctx context.Context, response *collect.Response, err error) error {
	rejected, types := runErrorType(err), aboutContent(err)
	switch {
	case tooLong(err):
		err = r.compactRejected(ctx, response, err)
	case len(types) > 0:
		err = r.dropContent(ctx, response, err, types)
	}

	if err != nil {
		err = r.lowerForm(response, err)
	}

	if err == nil {
		r.outcome.NumTurns--
		r.engine.metrics.repeat(rejected)
	}

	return err
}

// compactRejected compacts a conversation that upstream rejected for its size. It returns nil if
// the conversation became shorter, and otherwise err.
func (r *runState) compactRejected(ctx context.Context, response *collect.Response, err error) error {
	before := r.fill.add(r.transcript.messages)
	if len(response.Message.Content) > 0 || !r.halveWindow(before) {
		return err
	}

	r.fill.off = false
	if err := r.compact(ctx); err != nil {
		return err
	}

	if r.fill.add(r.transcript.messages) >= before {
		return err
	}

	return nil
}

// halveWindow lowers the assumed context window to half the size of the rejected request. It
// returns false after maxRejections rejections.
func (r *runState) halveWindow(rejected int64) bool {
	if r.rejections >= maxRejections {
		return false
	}

	r.rejections++
	r.window = min(r.window, rejected) / 2
	return true
}

// shorten returns messages whose texts, tool results, images and files are cut so that all messages
// together take at most budget tokens, as far as that is possible. It cuts the longest ones first.
// It does not cut thinking, which is signed, tool inputs, which are JSON, or the message of in,
// which may be nil.
func shorten(messages []model.Message, budget int64, in *Input) []model.Message {
	total := estimateAll(messages)
	if total <= budget {
		return messages
	}

	// limit is the maximum number of tokens per block with which the total fits into the budget.
	limit := budget
	for limit > 16 {
		sum := total
		for i := range messages {
			for j := range messages[i].Content {
				if b := &messages[i].Content[j]; canShorten(b, in) {
					sum -= max(0, collect.EstimateTokens(b.Text)-limit)
					if largeBinary(b, limit) {
						sum -= binaryTokens(b)
					}
				}
			}
		}

		if sum <= budget {
			break
		}

		limit /= 2
	}

	short := slices.Clone(messages)
	for i := range short {
		short[i].Content = slices.Clone(short[i].Content)
		for j := range short[i].Content {
			b := &short[i].Content[j]
			if !canShorten(b, in) {
				continue
			}

			if largeBinary(b, limit) {
				dropBinary(b)
			}

			if tokens := collect.EstimateTokens(b.Text); tokens > limit {
				b.Text, _ = excerpt.Ends(b.Text, int(int64(len(b.Text))*limit/tokens))
			}
		}
	}

	return short
}

// canShorten reports whether a block may be cut.
func canShorten(b *model.Block, in *Input) bool {
	switch b.Type {
	case model.BlockToolResult:
		return true
	case model.BlockText, model.BlockImage, model.BlockFile:
		return in == nil || !in.has(b)
	}

	return false
}
