package toolfile

import (
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsdepth"
)

const (
	maxHops     = 8 // constants that refer to one another
	maxWrappers = 8 // calls of defineTool and parentheses around an object
)

const (
	shape   = "the default export must be an object literal, defineTool({...}), or a constant with one of these"
	literal = "the name must be a string without escapes, or a template without substitutions"
)

// parser reads the tokens of a file with one token of lookahead.
type parser struct {
	source   string
	reader   *jsdepth.Reader
	tok      jsdepth.Token // the current token
	end      bool          // there is no current token
	constant bool          // the value is that of a constant, which another one can follow

	name struct {
		text  string
		at    jsdepth.Token
		found bool
	}
}

func newParser(source string) *parser {
	p := &parser{source: source, reader: jsdepth.NewReader(source)}
	p.next()
	return p
}

func (p *parser) next() {
	t, ok := p.reader.Next()
	if p.end = !ok; ok {
		p.tok = t
	}
}

// is reports whether the current token is a keyword, an operator or a bracket.
func (p *parser) is(text string) bool {
	return !p.end && p.tok.Text == text && p.tok.Kind != jsdepth.Literal && !p.tok.Property
}

func (p *parser) isWord() bool { return !p.end && p.tok.Kind == jsdepth.Word && !p.tok.Property }

// closes reports whether the current token closes a bracket that was opened at the depth.
func (p *parser) closes(depth int) bool {
	return !p.end && p.tok.Kind == jsdepth.Close && p.tok.Depth == depth
}

// fail returns an error at the current token.
func (p *parser) fail(reason string) error {
	if p.end {
		return jsdepth.At(p.source, len(p.source), reason)
	}
	return p.failAt(p.tok, reason)
}

func (p *parser) failAt(t jsdepth.Token, reason string) error {
	return jsdepth.At(p.source, t.Offset, reason)
}

func (p *parser) checkName() error {
	switch {
	case !p.name.found:
		return p.failAt(p.name.at, "the object has no name")
	case !ValidName(p.name.text):
		return p.failAt(p.name.at, fmt.Sprintf("the name %.80q must be a letter, then at most 63 letters, digits, _ and -", p.name.text))
	}
	return nil
}

// findDefault moves to the value of the default export, or returns the name of the constant that is
// exported as default.
func (p *parser) findDefault() (constant jsdepth.Token, err error) {
	for !p.end {
		if p.tok.Depth != 0 || !p.is("export") {
			p.next()
			continue
		}
		switch p.next(); {
		case p.is("default"):
			p.next()
			return constant, nil
		case p.is("{"):
			constant = p.findInList()
			if constant.Text == "" {
				continue
			}
			if p.is("from") {
				err = p.fail("the default export is in another file: " + shape)
			}
			return constant, err
		}
	}
	return constant, p.fail("there is no default export: " + shape)
}

// findInList returns the name that {name as default} exports, and moves to the token after the
// list.
func (p *parser) findInList() (constant jsdepth.Token) {
	var before [2]jsdepth.Token
	for p.next(); !p.end && !p.closes(0); p.next() {
		if t := p.tok.Text; before[1].Text == "as" && (t == "default" || strings.Trim(t, `"'`) == "default") {
			constant = before[0]
		}
		before[0], before[1] = before[1], p.tok
	}
	p.next()
	return constant
}

// findConstant returns a parser at the value of a constant of the file.
func findConstant(source string, name jsdepth.Token) (*parser, error) {
	p := newParser(source)
	p.constant = true
	declares := "" // the keyword of the declaration
	for before := ""; !p.end; before = p.tok.Text {
		if before != "" {
			if p.next(); p.end {
				break
			}
		}
		switch {
		case p.tok.Depth != 0:
			continue
		case p.is("const"), p.is("let"), p.is("var"):
			declares = p.tok.Text
			continue
		case p.is(";"):
			declares = ""
		}
		if declares == "" || !p.isWord() || p.tok.Text != name.Text || before != declares && before != "," {
			continue
		}
		if declared := p.tok; !p.assigned() {
			continue
		} else if declares != "const" {
			return nil, p.failAt(declared, "declare "+name.Text+" with const: "+shape)
		}
		return p, nil
	}
	return nil, p.failAt(name, fmt.Sprintf("%.80s is not a constant of this file: %s", name.Text, shape))
}

// assigned moves from the name of a constant to its value. It returns false if there is none.
func (p *parser) assigned() bool {
	p.next()
	if p.is(":") {
		for p.next(); !p.end; p.next() {
			if p.tok.Depth == 0 && (p.is("=") || p.is(">=") || p.is(";")) { // A<B>= {} is read as >=
				break
			}
		}
	}
	if !p.is("=") && !p.is(">=") {
		return false
	}
	p.next()
	return true
}
