package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// maxRejections is the number of requests of one run that may be rejected for their size before the
// run fails. Each rejection halves the window, so six of them reach 1/64 of it.
const maxRejections = 6

// tooLong reports whether upstream rejected a request for its size.
func tooLong(err error) bool {
	upstream, ok := errors.AsType[*model.Error](err)
	return ok && upstream.Code == model.CodePromptTooLong
}

// recoverRejected changes a conversation that upstream rejected, so that it accepts the next
// request of this run and of later runs of the session. It returns nil if it did, and otherwise
// err, the error of the call. The rejected request does not count as a turn.
func (r *run) recoverRejected(ctx context.Context, response *model.Response, err error) error {
	switch {
	case tooLong(err):
		err = r.compactRejected(ctx, response, err)
	case aboutImage(err):
		err = r.dropImages(ctx, response, err)
	}
	if err == nil {
		r.outcome.NumTurns--
	}
	return err
}

// aboutImage reports whether upstream rejected a request because of an image: some servers of the
// Anthropic wire format accept none, and a decoder may find a fault in one.
func aboutImage(err error) bool {
	upstream, ok := errors.AsType[*model.Error](err)
	return ok && upstream.Code == model.CodeInvalidRequest && strings.Contains(strings.ToLower(upstream.Message), "image")
}

// dropImages removes all images from the conversation. It returns err if there are none.
func (r *run) dropImages(ctx context.Context, response *model.Response, err error) error {
	if len(response.Message.Content) > 0 {
		return err
	}
	dropped := false
	plain := &transcript{}
	for _, m := range r.transcript.messages {
		m.Content = slices.Clone(m.Content)
		for i := range m.Content {
			dropped = dropped || m.Content[i].Images != nil
			m.Content[i].Images = nil
		}
		plain.add(m)
	}
	if !dropped {
		return err
	}
	if err := r.in.Session.Compact(ctx, plain.messages); err != nil {
		return fmt.Errorf("remove images from session: %w", err)
	}
	r.transcript, r.fill = plain, fill{off: r.fill.off}
	r.out.Emit(&wire.System{
		Type: "system", Subtype: wire.SystemWarning,
		Message: fmt.Sprintf("The images of the conversation are left out: %s.", publicText(err)),
	})
	return nil
}

// compactRejected compacts a conversation that upstream rejected for its size. It returns nil if
// the conversation became shorter, and otherwise err.
func (r *run) compactRejected(ctx context.Context, response *model.Response, err error) error {
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
