package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

// maxLine bounds a line of stderr in the log, in bytes.
const maxLine = 4 << 10

// The part of stderr that an error quotes: the number of lines, and the bytes of each.
const (
	quotedLines = 4
	quotedBytes = 400
)

// lines writes stderr to the log line by line and stores the last lines. Write never blocks.
type lines struct {
	log  *slog.Logger
	hide func(string) string

	mu   sync.Mutex // guards the fields below
	rest []byte     // the beginning of an incomplete line, at most maxLine bytes
	last []string   // the last lines, redacted
}

func (w *lines) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		line, after, ended := bytes.Cut(p, []byte("\n"))
		w.rest = append(w.rest, line[:min(len(line), maxLine-len(w.rest))]...)
		if p = after; ended {
			w.flush()
		}
	}
	return n, nil
}

func (w *lines) flush() {
	text := strings.ToValidUTF8(w.hide(strings.TrimSuffix(string(w.rest), "\r")), "\uFFFD")
	w.rest = w.rest[:0]
	w.log.Debug("stderr of an MCP server", "line", text)
	if text = strings.TrimSpace(text); text != "" {
		w.last = append(w.last[max(0, len(w.last)+1-quotedLines):], excerpt.Shorten(text, quotedBytes))
	}
}

// end returns the last lines, joined.
func (w *lines) end() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.flush()
	}
	return strings.Join(w.last, " | ")
}
