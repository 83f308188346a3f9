package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// message returns the message of the run with its parts.
func (in *Input) message() model.Message {
	m := model.UserText(in.Message)
	if in.Message == "" && len(in.Content) > 0 {
		m.Content = nil
	}

	m.Content = append(m.Content, in.Content...)
	return m
}

// has reports whether a block is a part of the message of the run.
func (in *Input) has(b *model.Block) bool {
	if b.Type == model.BlockText && b.Text == in.Message {
		return true
	}

	return slices.ContainsFunc(in.Content, func(own model.Block) bool {
		same := func(a, b model.Image) bool { return bytes.Equal(a.Data, b.Data) }
		return own.Type == b.Type && own.Text == b.Text && bytes.Equal(own.PDF, b.PDF) && slices.EqualFunc(own.Images, b.Images, same)
	})
}

// The tokens of a PDF are those of its pages, whose number is estimated from the bytes.
const (
	pageTokens = 2000
	pageBytes  = 100 << 10
)

// binaryTokens estimates the tokens of the images and the PDF of a block.
func binaryTokens(b *model.Block) int64 {
	n := imageTokens * int64(len(b.Images))
	if len(b.PDF) > 0 {
		n += pageTokens * int64(1+len(b.PDF)/pageBytes)
	}

	return n
}

// largeBinary reports whether an image or the PDF of a block takes more than limit tokens.
func largeBinary(b *model.Block, limit int64) bool {
	return len(b.Images) > 0 && imageTokens > limit || len(b.PDF) > 0 && binaryTokens(b) > limit
}

// binaries returns the images and files of a user.
func binaries(content []model.Block) []model.Block {
	var list []model.Block
	for _, b := range content {
		if b.Type == model.BlockImage || b.Type == model.BlockFile {
			list = append(list, b)
		}
	}

	return list
}

// dropBinary removes the images of a result, which its text describes, and replaces an image or a
// file of a user by a text.
func dropBinary(b *model.Block) {
	switch b.Type {
	case model.BlockImage, model.BlockFile:
		*b = model.Block{Type: model.BlockText, Text: "[" + describe(b) + " was left out.]"}
	default:
		b.Images = nil
	}
}

// describe names an image or a file for the model.
func describe(b *model.Block) string {
	return strings.TrimSpace(fmt.Sprintf("The %s %s", b.Type, b.Name))
}

// limitContent removes the oldest images and files of a conversation that has more of them than a
// request may have: a session is read into memory, and upstreams limit the bytes of a request. The
// message of the run and the last message keep theirs.
func (r *runState) limitContent(ctx context.Context) error {
	most := r.engine.cfg.MaxContent
	messages := r.transcript.messages
	sizes, total := make([]int, len(messages)), 0
	for i := range messages {
		for j := range messages[i].Content {
			sizes[i] += messages[i].Content[j].Bytes()
		}

		total += sizes[i]
	}

	if total <= most {
		return nil
	}

	dropped := map[int]bool{}
	for i := 0; i < len(messages)-1 && total > most*2/3; i++ {
		if i != r.question && sizes[i] > 0 {
			dropped[i] = true
			total -= sizes[i]
		}
	}

	if len(dropped) == 0 {
		return nil
	}

	return r.replaceContent(ctx, func(i int, b *model.Block) bool { return dropped[i] && b.Bytes() > 0 },
		fmt.Sprintf("The oldest images and files are left out: the conversation has more than %d bytes of them.", most))
}

// aboutContent returns the types of the blocks because of which upstream rejected a request: many
// models accept no images or files, some servers accept only texts, and a decoder may find a fault.
func aboutContent(err error) []model.BlockType {
	upstream, ok := errors.AsType[*model.Error](err)
	if !ok || upstream.Code != runvalue.ErrorTypeInvalidRequest {
		return nil
	}

	message := strings.ToLower(upstream.Message)
	says := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(message, phrase) })
	}
	all := says("multimodal", "content must be a string", "content.type")
	var types []model.BlockType
	if all || says("image", "vision") {
		types = append(types, model.BlockImage)
	}

	if all || says("document", "pdf", "file") {
		types = append(types, model.BlockFile)
	}

	return types
}

// dropContent removes the images or files that upstream has rejected from the conversation, so that
// later runs of the session do not fail. It returns nil if they are of results or former messages.
// Those of the message of this run are an error that names them.
func (r *runState) dropContent(ctx context.Context, response *collect.Response, err error, types []model.BlockType) error {
	rejects := func(b *model.Block) bool {
		kind := b.Type
		if kind == model.BlockToolResult {
			kind = model.BlockImage
		}

		return b.Bytes() > 0 && slices.Contains(types, kind)
	}
	found := slices.ContainsFunc(r.transcript.messages, func(m model.Message) bool {
		return slices.ContainsFunc(m.Content, func(b model.Block) bool { return rejects(&b) })
	})
	if !found || len(response.Message.Content) > 0 {
		return err
	}

	var own []string
	for i := range r.in.Content {
		if b := &r.in.Content[i]; rejects(b) {
			own = append(own, strings.TrimSpace(fmt.Sprintf("content[%d] %s", i, b.Name)))
		}
	}

	var names []string
	for _, kind := range types {
		names = append(names, string(kind)+"s")
	}

	warning := fmt.Sprintf("The %s of the conversation are left out: %s.", strings.Join(names, " and "), publicText(err))
	if err := r.replaceContent(ctx, func(_ int, b *model.Block) bool { return rejects(b) }, warning); err != nil {
		return err
	}

	if len(own) == 0 {
		return nil
	}

	rejected := model.Error{Code: runvalue.ErrorTypeInvalidRequest, Err: err}
	if upstream, ok := errors.AsType[*model.Error](err); ok {
		rejected = *upstream
	}

	rejected.Message = fmt.Sprintf("the model does not accept %s: %s", strings.Join(own, ", "), publicText(err))
	return &rejected
}

// replaceContent removes the images and files that drop selects from the conversation, with a
// warning.
func (r *runState) replaceContent(ctx context.Context, drop func(i int, b *model.Block) bool, warning string) error {
	if err := r.awaitFirstAppend(); err != nil {
		return err
	}

	plain := slices.Clone(r.transcript.messages)
	for i := range plain {
		plain[i].Content = slices.Clone(plain[i].Content)
		for j := range plain[i].Content {
			if b := &plain[i].Content[j]; drop(i, b) {
				dropBinary(b)
			}
		}
	}

	if err := r.in.Session.Compact(ctx, plain); err != nil {
		return fmt.Errorf("remove images and files from session: %w", err)
	}

	r.transcript, r.fill = &transcript{messages: plain}, fill{off: r.fill.off}
	r.out.Emit(&wire.System{Type: "system", Subtype: runvalue.SystemWarning, Message: warning})
	return nil
}
