package permission

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Two characters that no command has in it (see misread) stand in the text of words for what is not text.
const (
	hole = "\x01" // what is not known before the command runs: any text, or none
	gap  = '\x00' // white space inside a word, where it has to be told from that between words
)

// word is a word of a command after the shell took quotes and backslashes away.
type word struct {
	text   string
	open   bool // some of it is hole
	splits bool // it may become several words, or none
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
	var b builder
	for i, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.unquoted(part.Value, i == 0, len(w.Parts) == 1)
		case *syntax.SglQuoted:
			if part.Dollar && strings.ContainsRune(part.Value, '\\') {
				b.unknown()
			} else {
				b.WriteString(part.Value)
			}
		case *syntax.DblQuoted:
			if part.Dollar { // is translated
				b.unknown()
			}
			s.quoted(&b, part.Parts)
		case *syntax.ParamExp:
			s.parameter(&b, part)
			b.word.splits = true
		default: // substitutions, arithmetic, extended globs
			s.unclear = true
			b.unknown()
		}
	}
	if b.brace && b.list {
		return word{text: hole, open: true, splits: true}
	}
	b.word.text = b.String()
	return b.word
}

func (s *script) quoted(b *builder, parts []syntax.WordPart) {
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.doubleQuoted(part.Value)
		case *syntax.ParamExp:
			s.parameter(b, part)
			b.word.splits = b.word.splits || part.Param != nil && part.Param.Value == "@"
		default:
			s.unclear = true
			b.unknown()
		}
	}
}

// parameter takes $name and ${name} as unknown text. All else may assign, run commands, or both.
func (s *script) parameter(b *builder, p *syntax.ParamExp) {
	b.unknown()
	if p.Param == nil || p.Flags != nil || p.Excl || p.Length || p.Width || p.IsSet || p.NestedParam != nil ||
		p.Index != nil || p.Modifiers != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil {
		s.unclear = true
	}
}

// builder puts a word together.
type builder struct {
	strings.Builder
	word  word
	brace bool // { was met outside quotes, which with
	list  bool // , or .. behind it makes several words
}

func (b *builder) unknown() {
	b.word.open = true
	b.WriteString(hole)
}

func (b *builder) unquoted(text string, first, whole bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == '*', c == '?', c == '[' && (!whole || text != "["):
			b.unknown()
		case c == '~' && (first && i == 0 || i > 0 && (text[i-1] == '=' || text[i-1] == ':')):
			b.unknown()
		default:
			b.brace = b.brace || c == '{'
			b.list = b.list || b.brace && (c == ',' || c == '.')
			b.WriteByte(c)
		}
	}
}

// doubleQuoted knows which backslashes stay inside double quotes.
func (b *builder) doubleQuoted(text string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\", text[i+1]) >= 0 {
			i++
		}
		b.WriteByte(text[i])
	}
}

// may says whether a word, or one that it becomes, may match a pattern.
func (w word) may(pattern string) bool {
	return w.splits || overlaps(pattern, w.text)
}

// exact is the command as allow patterns see it.
func (c command) exact() string {
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

// loose is the command as deny patterns see it, by its name alone if it was named by path. Words that may vanish bring no
// space.
func (c command) loose(byName bool) string {
	var b strings.Builder
	name := c[0].text
	if byName {
		name = base(name)
	}
	b.WriteString(name)
	for _, w := range c[1:] {
		if w.text == "" {
			continue
		}
		if strings.Trim(w.text, hole) != "" {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
