package toolfile

import (
	"strings"

	"github.com/seed93082962/agenthost/internal/jsdepth"
)

// object reads an object literal up to the token after it. The last property name counts, as in
// JavaScript.
func (p *parser) object() error {
	depth := p.tok.Depth
	p.name.at = p.tok
	p.next()
	for !p.closes(depth) {
		switch {
		case p.end:
			return p.fail("the object is not closed")
		case p.is(","), p.is("*"), p.is("@"):
			p.next()
		case p.is("..."), p.tok.Kind == jsdepth.Open, strings.Contains(p.tok.Text, `\`):
			if p.name.found {
				return p.fail("this property can replace the name: write it before the name")
			}
			p.skipProperty(depth)
		default:
			if err := p.property(depth); err != nil {
				return err
			}
		}
	}
	p.next()
	return nil
}

// property reads a property with a known key.
func (p *parser) property(depth int) error {
	key := p.tok
	p.next()
	switch {
	case p.end:
	case p.tok.Kind == jsdepth.Word, p.tok.Kind == jsdepth.Literal, p.tok.Kind == jsdepth.Open && p.tok.Text == "[", p.is("*"):
		return nil // key is get, set or async
	case key.Text != "name" && key.Text != `"name"` && key.Text != "'name'":
		p.skipProperty(depth)
	case p.is(":"):
		p.next()
		return p.literal(depth)
	case p.tok.Kind == jsdepth.Open, p.is(","), p.is("<"), p.closes(depth):
		return p.failAt(key, literal)
	default: // a part of the value before, as in f<a, name>()
		p.skipProperty(depth)
	}
	return nil
}

// skipProperty moves to the comma or the bracket after the property.
func (p *parser) skipProperty(depth int) {
	for !p.end && !p.closes(depth) && (p.tok.Depth > depth+1 || !p.is(",")) {
		p.next()
	}
}

// literal reads the value of the name.
func (p *parser) literal(depth int) error {
	text := p.tok.Text
	if p.end || p.tok.Kind != jsdepth.Literal || len(text) < 2 || strings.IndexByte("\"'`", text[0]) < 0 || text[len(text)-1] != text[0] ||
		strings.Contains(text, `\`) {
		return p.fail(literal)
	}
	p.name.text, p.name.at, p.name.found = text[1:len(text)-1], p.tok, true
	p.next()
	p.skipTypes()
	if !p.is(",") && !p.closes(depth) {
		return p.fail(literal)
	}
	return nil
}
