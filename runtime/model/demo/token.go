package demo

import (
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/runtime/model"
)

const (
	// wordRunes bounds a token: words without a space in them are cut.
	wordRunes = 12
	// maxTokens is how many tokens a long text is cut into, without regard to words: it matters
	// for the input of a tool call, which is not shortened.
	maxTokens = 1000
)

// longest is the bound of a token of s, in runes.
func longest(s string) int { return max(wordRunes, len(s)/maxTokens) }

// cut takes the first token off s, which is not empty: a word with the white space before it,
// at most so many runes, or one rune of a script that is written without spaces. It never
// cuts a rune.
func cut(s string, most int) (token, rest string) {
	if most > wordRunes { // too long for words
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

// inputTokens guesses how many tokens a request has: one for four bytes.
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
