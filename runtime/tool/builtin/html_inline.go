package builtin

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
)

// style is one kind of formatting within a line.
type style int

const (
	strong style = iota
	emphasis
	strike
	link
	styles
)

var marks = [styles]string{strong: "**", emphasis: "*", strike: "~~", link: "["}

func styleOf(a atom.Atom) style {
	switch a {
	case atom.B, atom.Strong:
		return strong
	case atom.I, atom.Em:
		return emphasis
	}
	return strike
}

// inline is the text of one block, with white space collapsed. Formatting is a count of open
// elements for each style, so that misnested elements cost nothing. A mark is written before the
// first text that it applies to.
type inline struct {
	text     []byte
	pending  bool        // a space precedes the next text
	depth    [styles]int // open elements
	order    []style     // styles with open elements, the first opened first
	opened   []style     // styles whose mark is in text, outermost first; each at most once
	target   string      // of the open link, "" if it was written already
	code     int         // open elements
	codeText bytes.Buffer
}

// write appends text of the page.
func (l *inline) write(text []byte) {
	if l.code > 0 {
		l.codeText.Write(text)
		return
	}
	for len(text) > 0 {
		if isSpace(text[0]) {
			l.pending = true
			text = text[1:]
			continue
		}
		n := bytes.IndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf && isSpace(byte(r)) }) //nolint:gosec // it is ASCII
		if n < 0 {
			n = len(text)
		}
		l.begin()
		word := text[:n]
		if at := blockMark(word); at >= 0 && (len(l.text) == 0 || l.text[len(l.text)-1] == '\n') {
			l.text = append(append(append(l.text, word[:at]...), '\\'), word[at:]...)
		} else {
			l.text = appendEscaped(l.text, word, slices.Contains(l.opened, link))
		}
		text = text[n:]
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// space separates two words.
func (l *inline) space() { l.pending = true }

// begin writes what precedes the next text: a space, and the marks of styles that were opened
// since.
func (l *inline) begin() {
	if l.pending && len(l.text) > 0 && !isSpace(l.text[len(l.text)-1]) {
		l.text = append(l.text, ' ')
	}
	l.pending = false
	for _, s := range l.order {
		if slices.Contains(l.opened, s) || s == link && l.target == "" {
			continue
		}
		l.text = append(l.text, marks[s]...)
		l.opened = append(l.opened, s)
	}
}

func (l *inline) open(s style) {
	if l.depth[s]++; l.depth[s] == 1 {
		l.order = append(l.order, s)
	}
}

func (l *inline) close(s style) {
	if l.depth[s] == 0 {
		return
	}
	if l.depth[s]--; l.depth[s] == 0 {
		l.order = slices.DeleteFunc(l.order, func(v style) bool { return v == s })
		l.closeMark(s)
	}
}

// closeMark writes the closing mark of a style and of the styles nested in it. The nested ones are
// opened again before the next text.
func (l *inline) closeMark(s style) {
	at := slices.Index(l.opened, s)
	if at < 0 {
		return
	}
	for _, inner := range slices.Backward(l.opened[at:]) {
		if inner == link {
			l.text = append(append(append(l.text, "]("...), l.target...), ')')
			l.target = ""
		} else {
			l.text = append(l.text, marks[inner]...)
		}
	}
	l.opened = l.opened[:at]
}

func (l *inline) openLink(target string) {
	l.target = target
	l.open(link)
}

func (l *inline) closeLink() { l.close(link) }

func (l *inline) openCode() {
	if l.code++; l.code > 1 {
		return
	}
	l.codeText.Reset()
}

func (l *inline) closeCode() {
	if l.code == 0 {
		return
	}
	if l.code--; l.code == 0 {
		l.writeCode()
	}
}

// writeCode writes the text of a code element. Its fence is longer than any run of backticks in it.
func (l *inline) writeCode() {
	text := bytes.TrimSpace(l.codeText.Bytes())
	if len(text) == 0 {
		l.pending = l.pending || l.codeText.Len() > 0
		return
	}
	l.begin()
	fence := strings.Repeat("`", longestRun(text, '`')+1)
	if text[0] == '`' || text[len(text)-1] == '`' {
		l.text = append(append(append(l.text, fence...), ' '), bytes.Join(bytes.Fields(text), []byte(" "))...)
		l.text = append(append(l.text, ' '), fence...)
		return
	}
	l.text = append(append(append(l.text, fence...), bytes.Join(bytes.Fields(text), []byte(" "))...), fence...)
}

func (l *inline) image(alt, src string) {
	l.begin()
	l.text = append(l.text, "!["...)
	l.text = appendEscaped(l.text, []byte(alt), true)
	l.text = append(append(append(l.text, "]("...), src...), ')')
}

// newLine is a br element.
func (l *inline) newLine() {
	if l.code > 0 {
		l.codeText.WriteByte(' ')
		return
	}
	if len(l.text) > 0 && l.text[len(l.text)-1] != '\n' {
		l.text = append(l.text, "  \n"...)
	}
	l.pending = false
}

// take returns the text and starts the next block. Open styles continue in the next block, except
// for a link, whose target is written once.
func (l *inline) take(oneLine bool) []byte {
	if l.code > 0 {
		l.writeCode()
		l.codeText.Reset()
	}
	if len(l.opened) > 0 {
		l.closeMark(l.opened[0])
	}
	text := bytes.TrimRight(l.text, " \n")
	if oneLine {
		text = bytes.ReplaceAll(text, []byte("  \n"), []byte(" "))
	}
	l.text, l.pending = nil, false
	return text
}

// appendEscaped appends a word. What Markdown would read as formatting is escaped.
func appendEscaped(dst, word []byte, inLink bool) []byte {
	for i, c := range word {
		switch {
		case c == '*' || c == '`' || c == '\\',
			c == '_' && (i == 0 || i == len(word)-1), // not within a word
			c == '<' && i+1 < len(word) && (word[i+1] == '/' || word[i+1] == '!' || isLetter(word[i+1])),
			(c == '[' || c == ']') && inLink:
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

// blockMark returns the index of the character to escape if the word starts a line, or -1.
// Unescaped, it would turn the line into a heading, a quote, a list item or a rule.
func blockMark(word []byte) int {
	switch c := word[0]; {
	case c == '>':
		return 0
	case c == '#' || c == '-' || c == '+' || c == '=' || c == '~':
		if longestRun(word, c) == len(word) {
			return 0
		}
	case c >= '0' && c <= '9':
		digits := bytes.TrimLeft(word, "0123456789")
		if len(digits) == 1 && (digits[0] == '.' || digits[0] == ')') {
			return len(word) - 1
		}
	}
	return -1
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func longestRun(text []byte, c byte) (longest int) {
	run := 0
	for _, b := range text {
		if b != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// linkTarget returns a URL as the target of a link.
func linkTarget(u string) string {
	open := 0
	for _, c := range []byte(u) {
		switch {
		case c <= ' ' || c == '<' || c == '>' || c == '\\' || c == 0x7f:
			return "<" + strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E", "\n", "", "\r", "", "\t", "", "\\", "%5C").Replace(u) + ">"
		case c == '(':
			open++
		case c == ')':
			open--
		}
		if open < 0 {
			break
		}
	}
	if open != 0 {
		return "<" + u + ">"
	}
	return u
}
