package model

import (
	"errors"
	"unicode/utf8"
)

// ErrUnsent is in the error of a call of which nothing was sent to upstream.
var ErrUnsent = errors.New("the request was not sent")

// maxTokens bounds each count of one call: an upstream may send any number.
const maxTokens = 1 << 40

// bounded returns u with counts from 0 to maxTokens.
func (u Usage) bounded() Usage {
	bound := func(n int64) int64 { return min(max(n, 0), maxTokens) }
	u.InputTokens = bound(u.InputTokens)
	u.OutputTokens = bound(u.OutputTokens)
	u.CacheCreationInputTokens = bound(u.CacheCreationInputTokens)
	u.CacheReadInputTokens = bound(u.CacheReadInputTokens)
	u.ReasoningTokens = min(bound(u.ReasoningTokens), u.OutputTokens)
	return u
}

// Input returns the input tokens of all kinds.
func (u Usage) Input() int64 {
	return u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens
}

// EstimateTokens estimates the tokens of a text: one for four bytes of ASCII or two other bytes.
func EstimateTokens[T ~string | ~[]byte](text T) int64 {
	n := len(text)
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			n++
		}
	}

	return int64(n) / 4
}

// EstimateTokens estimates the output tokens of the response so far, including the inputs of
// incomplete tool calls.
func (c *Collector) EstimateTokens() int64 {
	n := int64(0)
	for i := range c.blocks {
		b := &c.blocks[i]
		n += 1 + EstimateTokens(b.buf) + EstimateTokens(b.sig) + EstimateTokens(b.Name) + EstimateTokens(b.Details)
	}

	return n
}
