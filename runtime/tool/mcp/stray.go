package mcp

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

// Limits of the lines on the stdout of a connection that are not messages, in bytes: all of them,
// and the part of the first one in the log and in an error.
const (
	maxStray    = 16 << 20
	quotedStray = 200
)

// stray counts the lines on stdout that are not messages: greetings, notices and log lines. They
// are skipped.
type stray struct {
	log  *slog.Logger
	hide func(string) string // removes secrets from a text
	warn *sync.Once          // of the server: further connections log no warning

	mu    sync.Mutex // guards the fields below
	first string     // redacted and shortened
	size  int        // bytes
}

// add counts a line. It fails if there are too many.
func (s *stray) add(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size == 0 {
		s.first = excerpt.Shorten(visible(s.hide(string(excerpt.Head(line, maxLine)))), quotedStray)
		s.warn.Do(func() {
			s.log.Warn("lines on the stdout of an MCP server are not messages, and are skipped", "line", s.first)
		})
	}

	s.size += len(line)
	if s.size > maxStray {
		return fmt.Errorf("the server wrote more than %d MiB to stdout that are not messages; the first line: %s", maxStray>>20, s.first)
	}

	return nil
}

// explain returns a part of an error, or "" without such lines.
func (s *stray) explain() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size == 0 {
		return ""
	}

	return "; its stdout has lines that are not messages, the first one: " + s.first
}

// visible returns a text with escapes in place of the characters that are not printed.
func visible(text string) string {
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(text, "\uFFFD") {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}

	return b.String()
}
