package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
)

const (
	maxSearched = 1 << 20 // bytes of a line that are searched
	maxRegexp   = 4000    // bytes
	maxProgram  = 20_000  // instructions
	longMatch   = 1 << 22 // instructions times bytes; a longer match checks the context
)

// scanner searches files line by line, and emits matching lines and their context in order. The
// buffer is reused for all files.
type scanner struct {
	match         *matcher
	before, after int // lines of context
	reader        *bufio.Reader
	above         []line // at most before lines that were not emitted

	// emit receives a line without its end. more is the number of bytes that are not in text. An
	// error ends the search of the file.
	emit func(number int, text []byte, more int64, match bool) error
}

// line is a line of context. It has what the output contains of the line.
type line struct {
	text []byte
	more int64
}

// file searches a file up to the line with the first null byte: what follows is not text. A file
// with a null byte in its first MiB is not searched.
func (s *scanner) file(ctx context.Context, r io.Reader) error {
	if s.reader == nil {
		s.reader = bufio.NewReaderSize(r, maxSearched)
	}

	s.reader.Reset(r)
	s.above = s.above[:0]
	if start, _ := s.reader.Peek(maxSearched); bytes.IndexByte(start, 0) >= 0 { // an error is returned by the next read
		return nil
	}

	owed := 0 // lines of context after the last match
	for number := 1; ; number++ {
		text, more, err := s.next(ctx)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}

			return err
		}

		match := s.match.line(ctx, text)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		text = bytes.TrimSuffix(text, []byte("\r"))
		switch {
		case match:
			owed = s.after
			for i, above := range s.above {
				if err := s.emit(number-len(s.above)+i, above.text, above.more, false); err != nil {
					return err
				}
			}

			s.above = s.above[:0]
		case owed > 0:
			owed--
		case s.before > 0:
			s.keep(text, more)
			continue
		default:
			continue
		}

		if err := s.emit(number, text, more, match); err != nil {
			return err
		}
	}
}

// next returns a line without "\n", and the number of its bytes that are not in it. The error is
// io.EOF after the last line.
func (s *scanner) next(ctx context.Context) ([]byte, int64, error) {
	text, err := s.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		text = bytes.Clone(text)
	}

	var more int64
	for errors.Is(err, bufio.ErrBufferFull) && ctx.Err() == nil {
		var rest []byte
		rest, err = s.reader.ReadSlice('\n')
		more += int64(len(bytes.TrimSuffix(rest, []byte("\n"))))
		if bytes.IndexByte(rest, 0) >= 0 {
			return nil, 0, io.EOF
		}
	}

	if errors.Is(err, io.EOF) && len(text) > 0 {
		err = nil
	}

	return bytes.TrimSuffix(text, []byte("\n")), more, err
}

// keep stores a line, of which the output may contain the beginning, in place of the oldest one.
func (s *scanner) keep(text []byte, more int64) {
	var oldest line
	if len(s.above) == s.before {
		oldest = s.above[0]
		s.above = append(s.above[:0], s.above[1:]...)
	}

	shown := text[:min(len(text), maxLine+1)]
	s.above = append(s.above, line{append(oldest.text[:0], shown...), more + int64(len(text)-len(shown))})
}

// matcher matches lines with a regular expression.
type matcher struct {
	re   *regexp.Regexp
	size int // instructions
}

func newMatcher(pattern string, ignoreCase bool) (*matcher, error) {
	if len(pattern) > maxRegexp {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxRegexp)
	}

	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}

	tree, err := syntax.Parse(pattern, flags)
	if syntaxErr, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("the pattern is not a regular expression in RE2 syntax: %s: %s", syntaxErr.Code, display(syntaxErr.Expr))
	} else if err != nil {
		return nil, err
	}

	if matchesNewline(tree) {
		return nil, errors.New("the pattern contains a line break, but matches are within one line: " +
			"search for one of its lines, and use -A for the lines after it")
	}

	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, errors.New("the pattern is too large: use fewer repetitions")
	}

	if ignoreCase {
		pattern = "(?i:" + pattern + ")"
	}

	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression in RE2 syntax: %w", err)
	}

	return &matcher{re: re, size: len(program.Inst)}, nil
}

func matchesNewline(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && slices.Contains(re.Rune, '\n') || slices.ContainsFunc(re.Sub, matchesNewline)
}

// line reports whether a line matches, with or without "\r" at its end.
func (m *matcher) line(ctx context.Context, text []byte) bool {
	bare := bytes.TrimSuffix(text, []byte("\r"))
	return m.part(ctx, bare) || len(bare) < len(text) && m.part(ctx, text)
}

func (m *matcher) part(ctx context.Context, text []byte) bool {
	if len(text)*m.size < longMatch {
		return m.re.Match(text)
	}

	return m.re.MatchReader(&runes{bytes.NewReader(text), ctx})
}

// runes is a reader that fails when its context ends.
type runes struct {
	*bytes.Reader
	ctx context.Context // for one match
}

func (r *runes) ReadRune() (rune, int, error) {
	if r.ctx.Err() != nil {
		return 0, 0, r.ctx.Err()
	}

	return r.Reader.ReadRune()
}
