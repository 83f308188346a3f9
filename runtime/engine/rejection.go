package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/model"
)

// maxRejections is the number of requests of one run that may be rejected for their size before the
// run fails. Each rejection halves the window, so six of them reach 1/64 of it.
const maxRejections = 6

// tooLong reports whether upstream rejected a request for its size.
func tooLong(err error) bool {
	upstream, ok := errors.AsType[*model.Error](err)
	return ok && upstream.Code == model.CodePromptTooLong
}

// compactRejected compacts a conversation that upstream rejected for its size. It returns nil if
// the conversation became shorter, and otherwise err, the error of the call. The rejected request
// does not count as a turn, and the next one is shorter.
func (r *run) compactRejected(ctx context.Context, response *model.Response, err error) error {
	before := r.fill.add(r.transcript.messages)
	if !tooLong(err) || len(response.Message.Content) > 0 || !r.halveWindow(before) {
		return err
	}
	r.fill.off = false
	if err := r.compact(ctx); err != nil {
		return err
	}
	if r.fill.add(r.transcript.messages) >= before {
		return err
	}
	r.outcome.NumTurns--
	return nil
}

// halveWindow lowers the assumed context window to half the size of the rejected request. It
// returns false after maxRejections rejections.
func (r *run) halveWindow(rejected int64) bool {
	if r.rejections >= maxRejections {
		return false
	}
	r.rejections++
	r.window = min(r.window, rejected) / 2
	return true
}

// shorten returns messages whose texts and tool results are cut so that all messages together take
// at most budget tokens, as far as that is possible. It cuts the longest ones first. It does not
// cut thinking, which is signed, tool inputs, which are JSON, or texts equal to whole.
func shorten(messages []model.Message, budget int64, whole string) []model.Message {
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
				if b := &messages[i].Content[j]; canShorten(b, whole) {
					sum -= max(0, textTokens(b.Text)-limit)
					if imageTokens > limit {
						sum -= imageTokens * int64(len(b.Images))
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
			if imageTokens > limit {
				b.Images = nil
			}
			if tokens := textTokens(b.Text); tokens > limit && canShorten(b, whole) {
				b.Text, _ = excerpt.Ends(b.Text, int(int64(len(b.Text))*limit/tokens))
			}
		}
	}
	return short
}

func canShorten(b *model.Block, whole string) bool {
	return b.Type == model.BlockToolResult || b.Type == model.BlockText && b.Text != whole
}
