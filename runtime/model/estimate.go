package model

import (
	"errors"
)

// ErrUnsent is in the error of a call of which nothing was sent to upstream.
var ErrUnsent = errors.New("the request was not sent")

// Input returns the input tokens of all kinds.
func (u Usage) Input() int64 {
	return u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens
}
