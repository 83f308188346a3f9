package permission

import (
	"cmp"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// Two control characters, which no command contains (see ambiguous), mark special places in the
// text of words.
const (
	hole = "\x01" // text that is not known before the command runs: any text, or none
	gap  = '\x00' // white space inside a word, as opposed to white space between words
)

// word is a word of a command without the quotes and backslashes that the shell removes.
type word struct {
	text     string
	open     bool // text contains a hole
	computed bool // a hole in it may be any text, also several words; other holes are file names
	splits   bool // the shell may split it into several words, or drop it
}

func (s *script) words(list []*syntax.Word) []word {
	words := make([]word, len(list))
	for i, w := range list {
		words[i] = s.word(w)
	}
	return words
}

func (s *script) word(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\*?[{~") {
			return word{text: lit.Value}
		}
	}
	var b wordBuilder
	for i, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.unquoted(part.Value, i == 0, len(w.Parts) == 1)
		case *syntax.SglQuoted:
			if part.Dollar && strings.ContainsRune(part.Value, '\\') {
				b.computed()
			} else {
				b.WriteString(part.Value)
			}
		case *syntax.DblQuoted:
			if part.Dollar { // the locale translates it
				b.computed()
			}
			s.quoted(&b, part.Parts)
		case *syntax.ParamExp:
			s.parameter(&b, part)
			b.word.splits = true
		default: // substitutions, arithmetic, extended globs
			s.opaque = true
			b.computed()
		}
	}
	if b.brace && b.list {
		return word{text: hole, open: true, computed: true, splits: true}
	}
	b.word.text = b.text()
	return b.word
}

// body returns the text of a here-document.
func (s *script) body(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	var b wordBuilder
	s.quoted(&b, w.Parts)
	b.word.text = b.String()
	return b.word
}

func (s *script) quoted(b *wordBuilder, parts []syntax.WordPart) {
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.doubleQuoted(part.Value)
		case *syntax.ParamExp:
			s.parameter(b, part)
			b.word.splits = b.word.splits || part.Param != nil && part.Param.Value == "@"
		default:
			s.opaque = true
			b.computed()
		}
	}
}

// parameter treats $name and ${name} as unknown text. Other forms may assign or run commands.
func (s *script) parameter(b *wordBuilder, p *syntax.ParamExp) {
	b.computed()
	if p.Param == nil || p.Flags != nil || p.Excl || p.Length || p.Width || p.IsSet || p.NestedParam != nil ||
		p.Index != nil || p.Modifiers != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil {
		s.opaque = true
	}
}

// wordBuilder joins the parts of a word.
type wordBuilder struct {
	strings.Builder
	word  word
	brace bool // an unquoted "{" was read
	list  bool // and after it a "," or "..", which make several words of it
	set   int  // where the characters after the first unquoted "[" begin, or 0
}

func (b *wordBuilder) hole() {
	b.word.open = true
	b.WriteString(hole)
}

func (b *wordBuilder) computed() {
	b.word.computed = true
	b.hole()
}

func (b *wordBuilder) unquoted(text string, first, only bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == '*', c == '?':
			b.hole()
		case c == '[' && (!only || text != "["):
			b.hole()
			b.set = cmp.Or(b.set, b.Len())
		case c == '~' && (first && i == 0 || i > 0 && (text[i-1] == '=' || text[i-1] == ':')):
			b.hole()
			for i+1 < len(text) && !separates(rune(text[i+1])) && text[i+1] != '/' { // the name of a user
				i++
			}
		default:
			b.brace = b.brace || c == '{'
			b.list = b.list || b.brace && (c == ',' || c == '.')
			b.WriteByte(c)
		}
	}
}

// text returns the text of the word. The hole for a "[" also covers the text up to the last "]",
// which may be a set of characters.
func (b *wordBuilder) text() string {
	text := b.String()
	if end := strings.LastIndexByte(text, ']'); b.set > 0 && end >= b.set {
		text = text[:b.set] + text[end+1:]
	}
	return text
}

// doubleQuoted removes the backslashes that quote a character inside double quotes.
func (b *wordBuilder) doubleQuoted(text string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\", text[i+1]) >= 0 {
			i++
		}
		b.WriteByte(text[i])
	}
}

// mayMatch reports whether the word, or a word that it is split into, may match a pattern.
func (w word) mayMatch(pattern string) bool {
	return w.splits || overlaps(pattern, w.text)
}

// consume returns the rest of a deny pattern after a word. It removes the leading words of the
// pattern that occur in the word, in the order of the pattern.
func (w word) consume(pattern []string) []string {
	if w.computed {
		return nil
	}
	left := consumeFields(w.text, pattern)
	if strings.ContainsAny(w.text, `\"'`) {
		for _, code := range []*strings.Replacer{withoutQuotes, withoutEscapes} {
			if other := consumeFields(code.Replace(w.text), pattern); len(other) < len(left) {
				left = other
			}
		}
	}
	if len(left) > 0 && len(left) == len(pattern) && w.countsAs(left[0]) {
		left = left[1:]
	}
	return left
}

// An argument may be code: sh -c 'g""it push', printf 'true\ngit push' | sh.
var (
	withoutQuotes  = strings.NewReplacer("\\\n", "", `\`, "", `"`, "", "'", "")
	withoutEscapes = strings.NewReplacer(`\n`, " ", `\r`, " ", `\t`, " ")
)

// consumeFields is consume for the fields of a text.
func consumeFields(text string, pattern []string) []string {
	for field := range strings.FieldsFuncSeq(text, separates) {
		f := word{text: field, open: strings.Contains(field, hole)}
		for len(pattern) > 0 && f.countsAs(pattern[0]) {
			if pattern = pattern[1:]; !f.open { // an open field may be several words
				break
			}
		}
	}
	return pattern
}

// separates reports whether a character ends a field. A field consists of the characters of command
// names. The other characters separate words in code, in options and in lists.
func separates(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-./"+hole, c)
}

// countsAs reports whether the word counts as a word of a deny pattern: the whole word, the end of
// a path, the end of an option, or unknown text may match.
func (w word) countsAs(pattern string) bool {
	if w.open || strings.HasPrefix(w.text, "-") {
		return overlaps("*"+pattern, w.text)
	}
	return matches(pattern, w.text) || matches("*/"+pattern, w.text)
}

func baseName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// line returns the text that allow patterns are compared with.
func (c command) line() string {
	var b strings.Builder
	for i, w := range c {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.Map(func(r rune) rune {
			if r == ' ' || r == '\t' || r == '\n' {
				return gap
			}
			return r
		}, w.text))
	}
	return b.String()
}
