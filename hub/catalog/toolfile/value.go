package toolfile

import (
	"strings"

	"github.com/seed93082962/agenthost/internal/jsdepth"
)

// value reads an object literal with its wrappers and types, or returns the name of a constant.
func (p *parser) value() (constant jsdepth.Token, err error) {
	opened := 0
	for ; p.is("(") || p.is("defineTool"); opened++ {
		if opened == maxWrappers {
			return constant, p.fail(shape)
		}
		if p.is("defineTool") {
			p.next()
			p.skipTypeArguments()
			if !p.is("(") {
				return constant, p.fail(shape)
			}
		}
		p.next()
	}
	switch {
	case p.is("{"):
		err = p.object()
	case p.isWord() && !isReserved(p.tok.Text):
		constant = p.tok
		p.next()
	default:
		err = p.fail(shape)
	}
	if err != nil {
		return constant, err
	}
	for ; ; opened-- {
		p.skipTypes()
		if opened == 0 {
			break
		}
		if p.is(",") {
			p.next()
		}
		if !p.is(")") {
			return constant, p.fail(shape)
		}
		p.next()
	}
	return constant, p.checkEnd()
}

// isReserved reports whether a word begins another expression than a name.
func isReserved(word string) bool {
	switch word {
	case "async", "await", "class", "delete", "false", "function", "import", "new", "null", "super", "this", "true", "typeof", "void", "yield":
		return true
	}
	return strings.Contains(word, `\`)
}

// checkEnd checks that the expression ends before the current token.
func (p *parser) checkEnd() error {
	switch {
	case p.end, p.is(";"), p.constant && p.is(","):
		return nil
	case !p.tok.Newline || p.is("in") || p.is("instanceof"):
	case p.isWord(), p.is("{"), p.is("@"), p.tok.Kind == jsdepth.Literal && !strings.HasPrefix(p.tok.Text, "`"):
		return nil
	}
	return p.fail(shape)
}

// skipTypeArguments skips <A, B>.
func (p *parser) skipTypeArguments() {
	if !p.is("<") {
		return
	}
	depth, opened := p.tok.Depth, 0
	for ; !p.end; p.next() {
		switch {
		case p.tok.Depth != depth:
		case p.is("<"):
			opened++
		case p.is(">"):
			if opened--; opened == 0 {
				p.next()
				return
			}
		}
	}
}

// skipTypes skips "as const", "as T" and "satisfies T".
func (p *parser) skipTypes() {
	for !p.tok.Newline && (p.is("as") || p.is("satisfies")) {
		p.next()
		p.skipType()
	}
}

// skipType moves to the first token that cannot continue a type.
func (p *parser) skipType() {
	depth, arguments, operand := p.tok.Depth, 0, true // operand: a part of the type must follow
	for ; !p.end && p.tok.Depth >= depth; p.next() {
		switch {
		case p.tok.Depth > depth:
		case p.is("<"):
			arguments++
		case p.is(">") && arguments > 0:
			arguments--
			operand = false
		case arguments > 0:
		case p.is("|"), p.is("&"), p.is("."), p.is("=>"), p.is("-"):
			operand = true
		case p.tok.Kind == jsdepth.Punctuator:
			return
		case !operand && (p.tok.Newline && p.tok.Kind != jsdepth.Close || p.is("as") || p.is("satisfies")):
			return
		default:
			operand = p.is("typeof") || p.is("keyof") || p.is("readonly")
		}
	}
}
