package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

// Limits of stderr in the log, in bytes.
const (
	maxLine   = 4 << 10
	maxLogged = 64 << 10 // in logTime
)

const logTime = time.Minute

// The part of stderr that an error quotes: the number of lines, and the bytes of each.
const (
	quotedLines = 4
	quotedBytes = 400
)

// lines writes stderr to the log line by line and stores the last lines. Write never blocks.
type lines struct {
	log  *slog.Logger
	hide func(string) string
	user func() *use // the run that uses the server, or nil

	mu     sync.Mutex // guards the fields below
	rest   []byte     // the beginning of an incomplete line, at most maxLine bytes
	last   []string   // the last lines, redacted
	since  time.Time  // the start of the present logTime
	logged int        // bytes in it that no quota of a run bounds
	full   string     // the last run whose quota was used up
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
	switch u := w.user(); {
	case u == nil:
		w.logInMinute(text)
	case u.log == nil:
		w.logInMinute(text, "run_id", u.run)
	case u.log.Take(len(text) + 1):
		w.log.Info("stderr of an MCP server", "run_id", u.run, "line", text)
	case w.full != u.run:
		w.full = u.run
		w.log.Info("an MCP server wrote too much to stderr, the rest of this run is left out", "run_id", u.run)
	}

	if text = strings.TrimSpace(text); text != "" {
		w.last = append(w.last[max(0, len(w.last)+1-quotedLines):], excerpt.Shorten(text, quotedBytes))
	}
}

// logInMinute logs a line that no quota of a run bounds.
func (w *lines) logInMinute(text string, about ...any) {
	if now := time.Now(); now.Sub(w.since) >= logTime {
		w.since, w.logged = now, 0
	}

	before := w.logged
	switch w.logged += len(text) + 1; {
	case w.logged <= maxLogged:
		w.log.Info("stderr of an MCP server", append(about, "line", text)...)
	case before <= maxLogged:
		w.log.Info("an MCP server wrote too much to stderr, the rest of this minute is left out", about...)
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
