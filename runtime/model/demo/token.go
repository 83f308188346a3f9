package demo

import (
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/runtime/model"
)

const (
	// wordRunes bounds a token: longer words are split.
	wordRunes = 12
	// maxTokens bounds the number of tokens of a text: a longer text, such as the input of a tool
	// call, has longer tokens.
	maxTokens = 1000
)

// longest returns the maximum length of a token of s, in runes.
func longest(s string) int { return max(wordRunes, len(s)/maxTokens) }

// cut returns the first token of s, which must not be empty, and the rest. A token is a word with
// the white space before it, limited to most runes, or one rune of a script without spaces. A rune
// is never split.
func cut(s string, most int) (token, rest string) {
	if most > wordRunes { // the text is too long to be split by words
		for i := range s {
			if most--; most < 0 {
				return s[:i], s[i:]
			}
		}
		return s, ""
	}
	word, runes := false, 0
	for i, r := range s {
		switch {
		case runes == most, word && unicode.IsSpace(r):
			return s[:i], s[i:]
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			if runes > 0 {
				return s[:i], s[i:]
			}
			end := i + utf8.RuneLen(r)
			return s[:end], s[end:]
		case !unicode.IsSpace(r):
			word = true
		}
		runes++
	}
	return s, ""
}

// inputTokens estimates the tokens of a request: one for four bytes.
func inputTokens(req *model.Request) int64 {
	n := len(req.System)
	for i := range req.Messages {
		for j := range req.Messages[i].Content {
			b := &req.Messages[i].Content[j]
			n += len(b.Text) + len(b.Name) + len(b.Input)
		}
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		n += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	return int64(n/4 + 1)
}
