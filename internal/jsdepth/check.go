package jsdepth

import (
	"fmt"
	"strings"
)

const (
	maxBrackets = 200
	maxOpen     = 2000
	maxCommas   = 20_000

	// namespaceCost is the count of each part of a namespace name, since the time of a parser is
	// cubic in the number of parts.
	namespaceCost = 50
)

// Error is the reason why a file is rejected.
type Error struct {
	Line, Column int // counted from 1, in bytes
	Reason       string
}

// At returns the error of a place in a file.
func At(source string, offset int, reason string) *Error {
	line, column := 1, 1
	for i := range min(offset, len(source)) {
		if column++; source[i] == '\n' {
			line, column = line+1, 1
		}
	}
	return &Error{line, column, reason}
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Reason) }

// Check reports whether a file is within the limits. The error is an [*Error].
func Check(source string) error {
	r := NewReader(source)
	for {
		if _, ok := r.Next(); !ok {
			return r.Err()
		}
	}
}

// level is one open bracket.
type level struct {
	close  byte // the bracket that ends it; 0 for the file
	header bool // the parentheses of if, for, while or with: a statement follows them
	list   bool // commas separate elements
	inside bool // a template substitution

	open   int // operators and keywords of the open statement
	before int // and of the one before it, which else continues
	commas int

	namespace bool // the open statement declares a namespace
}

// checker counts open operators.
type checker struct {
	scanner
	levels []level
	open   int // of all levels
}

// statements are the keywords with which a statement begins.
var statements = words("if for while do switch return var const function class throw try import export " +
	"break continue with debugger case default enum")

// headers are the keywords whose parentheses are followed by a statement.
var headers = words("if for while with")

// operators are the other reserved words: an expression or a statement continues after them.
var operators = words("typeof void new delete await yield in instanceof of extends else catch finally")

// modifiers are identifiers that can be keywords: the expression or statement can continue.
var modifiers = words("as satisfies keyof infer readonly unique asserts is static accessor get set public private " +
	"protected override out global type namespace module declare abstract async let interface implements")

func words(text string) map[string]bool {
	set := map[string]bool{}
	for start, i := 0, 0; i <= len(text); i++ {
		if i == len(text) || text[i] == ' ' {
			set[text[start:i]] = true
			start = i + 1
		}
	}
	return set
}

// token counts the token that was read, and sets what the next one depends on.
func (c *checker) token() {
	l := &c.levels[len(c.levels)-1]
	follows := c.value && !c.header && !c.modifier // a value that a new statement can follow
	value, before := c.value, c.before
	header := c.header
	c.header, c.modifier, c.before = false, false, ""
	switch c.kind {
	case Word:
		c.word(l, follows, before)
	case Literal:
		c.value = true
		switch {
		case c.source[c.start] == '`' && value:
			c.add(l, 1)
		case follows:
			c.end(l)
		}
	case Open:
		c.push(l, value && !header, before)
	case Close:
		c.pop()
	case Punctuator:
		c.punctuator(l, value)
	}
}

func (c *checker) word(l *level, follows bool, before string) {
	text := c.source[c.start:c.at]
	c.value = true
	switch {
	case c.property:
		return
	case text == "else":
		c.add(l, max(l.open, l.before)-l.open)
	case statements[text] && follows, !statements[text] && !operators[text] && !modifiers[text] && follows:
		c.end(l)
	}
	switch {
	case statements[text], operators[text]:
		c.value, c.before = false, text
	case modifiers[text]:
		c.modifier = true
	default:
		return
	}
	c.add(l, 1)
	if text == "namespace" || text == "module" {
		l.namespace = true
		c.add(l, namespaceCost)
	}
	if text == "await" && before == "for" {
		c.before = "for"
	}
}

func (c *checker) push(l *level, value bool, before string) {
	c.add(l, 1)
	next := level{close: ')'}
	switch c.source[c.at-1] {
	case '(':
		next.header = headers[before]
		next.list = value
	case '[':
		next.close, next.list = ']', true
	default:
		next.close = '}'
		next.inside = c.source[c.start] == '$'
		next.list = c.previous != "" && strings.IndexByte("([,=:?&|+!.", c.previous[len(c.previous)-1]) >= 0
	}
	if len(c.levels) > maxBrackets {
		c.reason = fmt.Sprintf("brackets are nested deeper than %d levels", maxBrackets)
		return
	}
	c.levels = append(c.levels, next)
	c.value = false
}

// pop closes a bracket. One that does not match is a syntax error, which the parser reports: levels
// stay open, so that no bracket in it lowers the depth.
func (c *checker) pop() {
	l := c.levels[len(c.levels)-1]
	c.value = true
	if c.source[c.start] != l.close {
		return
	}
	c.levels = c.levels[:len(c.levels)-1]
	c.open -= l.open
	c.header = l.header
	if !l.inside {
		return
	}
	c.template()
	if c.kind == Open {
		c.push(&c.levels[len(c.levels)-1], false, "")
	}
}

func (c *checker) punctuator(l *level, value bool) {
	text := c.source[c.start:c.at]
	c.value = false
	switch text {
	case ";":
		c.end(l)
		l.commas = 0
	case ",":
		c.add(l, -l.open)
		l.before = 0
		if l.commas++; l.commas > maxCommas && !l.list {
			c.reason = fmt.Sprintf("a comma expression has more than %d elements", maxCommas)
		}
	case "++", "--", "!":
		c.add(l, 1)
		c.value = value && !c.newline // postfix
	case ".":
		c.add(l, 1)
		if l.namespace {
			c.add(l, namespaceCost)
		}
	default:
		c.add(l, 1)
	}
}

// add counts operators and keywords of the open statement.
func (c *checker) add(l *level, n int) {
	l.open += n
	c.open += n
	if c.open > maxOpen {
		c.reason = fmt.Sprintf("an expression or statement has more than %d operators", maxOpen)
	}
}

// end ends the open statement of a level.
func (c *checker) end(l *level) {
	l.before, l.namespace = l.open, false
	c.add(l, -l.open)
}
