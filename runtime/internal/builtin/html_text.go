package builtin

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxTitle   = 300     // bytes
	maxLinkURL = 2 << 10 // bytes of a link in the text
	maxLinks   = 2 << 20 // bytes of the work to resolve the links of one page
)

// escaped returns a text in which what Markdown would read as formatting is escaped.
func (t *tree) escaped(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/16)
	mark := -1 // of a character that would start a block
	if !t.begun {
		word := bytes.TrimLeft(text, space)
		mark = len(text) - len(word) + blockMark(word[:len(word)-len(bytes.TrimLeftFunc(word, func(r rune) bool { return !strings.ContainsRune(space, r) }))])
	}

	inLink, inCell := t.find(atom.A) > 0, t.find(atom.Td) > 0
	inHeading := t.find(atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6) > 0
	for i, c := range text {
		next := byte(' ')
		if i+1 < len(text) {
			next = text[i+1]
		}

		switch {
		case c == '*' || c == '`' || c == '\\' || i == mark,
			c == '_' && (i == 0 || isSpace(text[i-1]) || isSpace(next)), // not within a word
			c == '<' && (next == '/' || next == '!' || next|0x20 >= 'a' && next|0x20 <= 'z'),
			(c == '[' || c == ']') && inLink, c == '|' && inCell, c == '#' && inHeading:
			out = append(out, '\\')
		}

		out = append(out, c)
	}

	return out
}

const space = " \n\t\r\f"

func isSpace(c byte) bool { return strings.IndexByte(space, c) >= 0 }

// blockMark returns the index of the character to escape if the word starts a line, or a negative
// number. Unescaped, it would turn the line into a heading, a quote, a list item or a rule.
func blockMark(word []byte) int {
	switch rest := bytes.TrimLeft(word, "0123456789"); {
	case len(word) == 0:
	case word[0] == '>', strings.IndexByte("#-+=~", word[0]) >= 0 && len(bytes.TrimLeft(word, string(word[0]))) == 0:
		return 0
	case len(rest) == 1 && len(word) > 1 && (rest[0] == '.' || rest[0] == ')'):
		return len(word) - 1
	}

	return -1 << 30
}

// listStart returns the number of the first item of a list.
func listStart(value string) string {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 0 || n > 999_999 {
		n = 1
	}

	return strconv.Itoa(n)
}

func span(value string) int {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil {
		return 1
	}

	return min(max(n, 1), 1000)
}

// languageOf returns the attributes of a pre element: the language in the class of its element.
func languageOf(class string) []html.Attribute {
	for name := range strings.FieldsSeq(class) {
		for _, prefix := range []string{"language-", "lang-", "highlight-source-"} {
			if lang, ok := strings.CutPrefix(name, prefix); ok && len(lang) <= 32 && !strings.ContainsAny(lang, "`~") {
				return []html.Attribute{{Key: "class", Val: "language-" + lang}}
			}
		}
	}

	return nil
}

func (t *tree) setBase(href string) {
	if t.based || t.base == nil || href == "" || len(href) > maxLinkURL {
		return
	}

	if u, err := t.base.Parse(strings.TrimSpace(href)); err == nil {
		t.base, t.based = u, true
	}
}

// resolve returns an absolute URL, or "" if the link is of no use to a reader. Once the links of
// the page cost too much, they stay as they are.
func (t *tree) resolve(ref string) string {
	ref = strings.TrimSpace(ref)
	if ref == "" || len(ref) > maxLinkURL {
		return ""
	}

	if scheme, _, ok := strings.Cut(ref, ":"); ok && slices.Contains([]string{"data", "javascript", "blob"}, strings.ToLower(scheme)) {
		return ""
	}

	if t.linkWork -= len(ref) + maxLinkURL/16; t.linkWork < 0 || t.base == nil {
		return ref
	}

	u, err := t.base.Parse(ref)
	if err != nil {
		return ""
	}

	whole := u.String()
	if t.linkWork -= len(whole); t.linkWork < 0 {
		return ref
	}

	return whole
}
