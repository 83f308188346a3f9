package toolfile

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/jsdepth"
)

// Error is the reason why a file is rejected. Line is 0 if it concerns the file as a whole.
type Error struct {
	Line, Column int // counted from 1, in bytes
	Reason       string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Reason)
}

var namePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// ValidName reports whether a custom tool can have the name.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// ValidFile reports whether a file name has the extension of a tool: .ts, .mts, .js or .mjs.
func ValidFile(file string) bool {
	switch path.Ext(file) {
	case ".ts", ".mts", ".js", ".mjs":
		return true
	}
	return false
}

// Name returns the name of the tool in a file, whose extension is one that [ValidFile] accepts. The
// default export is an object literal, defineTool of one, or a constant with one of these. The name
// is a string, or a template without substitutions. Types are allowed as in "satisfies" and
// "as const". The error is an [*Error].
func Name(file, source string) (string, error) {
	source = strings.TrimPrefix(source, "\uFEFF")
	if !utf8.ValidString(source) {
		return "", &Error{Reason: "the file is not UTF-8"}
	}
	name, err := read(source)
	if err != nil {
		return "", placed(err)
	}
	if err := checkSyntax(file, source); err != nil {
		return "", placed(err)
	}
	return name, nil
}

func placed(err error) error {
	if e, ok := errors.AsType[*jsdepth.Error](err); ok {
		return &Error{e.Line, e.Column, e.Reason}
	}
	return err
}

// read returns the name of the default export.
func read(source string) (string, error) {
	if err := jsdepth.Check(source); err != nil {
		return "", err
	}
	p := newParser(source)
	constant, err := p.findDefault()
	for hops := 0; err == nil; hops++ {
		if constant.Text != "" {
			if p, err = findConstant(source, constant); err != nil {
				break
			}
		}
		constant, err = p.value()
		if err == nil && constant.Text == "" {
			return p.name.text, p.checkName()
		}
		if err == nil && hops == maxHops {
			err = p.failAt(constant, shape)
		}
	}
	return "", err
}
