package builtin

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"
)

// maxContainers bounds the lists and quotes that are written around a block, since each adds a
// prefix to every line in it.
const maxContainers = 8

type kind int

const (
	bulletList kind = iota
	numberedList
	item
	quote
	kinds
)

// container is an open list, list item or quote.
type container struct {
	kind   kind
	id     int    // no other container of the page has it
	number int    // numberedList: of the next item
	marker string // item: before its first line, then ""
	indent string // item: before every other line
}

func (c *container) list() bool { return c.kind == bulletList || c.kind == numberedList }

// blocks is the Markdown of a page.
type blocks struct {
	text   bytes.Buffer
	around []container // of the next block, outermost first
	hidden [kinds]int  // open containers beyond maxContainers
	ids    int
	last   []int // ids of the containers of the last block
}

func (b *blocks) String() string { return b.text.String() }

func (b *blocks) open(c container) {
	if len(b.around) >= maxContainers {
		b.hidden[c.kind]++
		return
	}
	b.ids++
	c.id = b.ids
	b.around = append(b.around, c)
}

// close ends the innermost container of a kind, and those in it.
func (b *blocks) close(k kind) {
	if b.hidden[k] > 0 {
		b.hidden[k]--
		return
	}
	for i, c := range slices.Backward(b.around) {
		if c.kind == k {
			b.around = b.around[:i]
			return
		}
	}
}

// openItem starts an item of the innermost list. It ends the item before.
func (b *blocks) openItem() {
	if b.inHiddenList() {
		return
	}
	b.closeItem()
	marker := "- "
	for i := range slices.Backward(b.around) {
		if c := &b.around[i]; c.list() {
			if c.kind == numberedList {
				marker = strconv.Itoa(c.number) + ". "
				c.number++
			}
			break
		}
	}
	b.open(container{kind: item, marker: marker, indent: strings.Repeat(" ", len(marker))})
}

// closeItem ends the item of the innermost list.
func (b *blocks) closeItem() {
	if b.inHiddenList() {
		return
	}
	for i, c := range slices.Backward(b.around) {
		if c.list() {
			return
		}
		if c.kind == item {
			b.around = b.around[:i]
			return
		}
	}
}

func (b *blocks) inHiddenList() bool { return b.hidden[bulletList]+b.hidden[numberedList] > 0 }

// write appends a block, whose lines end with \n except for the last one.
func (b *blocks) write(text []byte) {
	if len(text) == 0 {
		return
	}
	b.separate()
	var first, rest []byte
	for i := range b.around {
		switch c := &b.around[i]; {
		case c.kind == quote:
			first, rest = append(first, "> "...), append(rest, "> "...)
		case c.kind == item && c.marker != "":
			first, rest = append(first, c.marker...), append(rest, c.indent...)
			c.marker = ""
		case c.kind == item:
			first, rest = append(first, c.indent...), append(rest, c.indent...)
		}
	}
	for prefix := first; len(text) > 0; prefix = rest {
		line, after, _ := bytes.Cut(text, []byte("\n"))
		if len(line) == 0 {
			prefix = bytes.TrimRight(prefix, " ")
		}
		b.text.Write(prefix)
		b.text.Write(line)
		if text = after; len(text) > 0 {
			b.text.WriteByte('\n')
		}
	}
	b.last = b.last[:0]
	for _, c := range b.around {
		b.last = append(b.last, c.id)
	}
}

// separate writes the separator between the last block and the next one: an empty line, or a line
// end between items of one list.
func (b *blocks) separate() {
	if b.text.Len() == 0 {
		return
	}
	b.text.WriteByte('\n')
	for i, c := range b.around {
		if c.kind != item || c.marker == "" {
			continue
		}
		sibling := i > 0 && b.around[i-1].list() && slices.Contains(b.last, b.around[i-1].id)
		nested := i > 1 && b.around[i-2].kind == item && slices.Contains(b.last, b.around[i-2].id)
		if sibling || nested {
			return
		}
		break
	}
	var prefix []byte
	for i, c := range b.around {
		switch {
		case i >= len(b.last) || b.last[i] != c.id:
		case c.kind == quote:
			prefix = append(prefix, "> "...)
			continue
		case c.kind == item:
			prefix = append(prefix, c.indent...)
			continue
		default:
			continue
		}
		break
	}
	b.text.Write(bytes.TrimRight(prefix, " "))
	b.text.WriteByte('\n')
}

// listStart is the number of the first item of a list.
func listStart(value string) int {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 0 || n > 999_999 {
		return 1
	}
	return n
}

// preformatted is the text of a pre element.
type preformatted struct {
	text     bytes.Buffer
	language string
}

// start handles a start tag within the element. It reports whether the element ends there.
func (p *preformatted) start(a atom.Atom, t tag) bool {
	switch a {
	case atom.Br:
		p.text.WriteByte('\n')
	case atom.Code:
		if p.text.Len() == 0 && p.language == "" {
			p.language = language(t.class)
		}
	case atom.Pre, atom.Table, atom.Td, atom.Th, atom.Tr, atom.H1, atom.H2, atom.H3, atom.Li, atom.Blockquote:
		return true
	case atom.Div, atom.P: // of a line, in some highlighters
		if text := p.text.Bytes(); len(text) > 0 && text[len(text)-1] != '\n' {
			p.text.WriteByte('\n')
		}
	}
	return false
}

// ends reports whether an end tag, which is not that of pre, ends the element.
func (p *preformatted) ends(a atom.Atom) bool {
	switch a {
	case atom.Td, atom.Th, atom.Tr, atom.Table, atom.Li, atom.Ul, atom.Ol, atom.Blockquote:
		return true
	}
	return false
}

func (p *preformatted) block() []byte {
	text := bytes.Trim(bytes.ReplaceAll(p.text.Bytes(), []byte("\r\n"), []byte("\n")), "\n")
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	fence := strings.Repeat("`", max(longestRun(text, '`')+1, 3))
	out := make([]byte, 0, len(text)+2*len(fence)+len(p.language)+2)
	out = append(append(append(out, fence...), p.language...), '\n')
	return append(append(append(out, text...), '\n'), fence...)
}

// language returns the language of code in the class of its element.
func language(class string) string {
	for name := range strings.FieldsSeq(class) {
		for _, prefix := range []string{"language-", "lang-", "highlight-source-"} {
			if lang, ok := strings.CutPrefix(name, prefix); ok && len(lang) <= 32 && !strings.ContainsAny(lang, "`~") {
				return lang
			}
		}
	}
	return ""
}
