package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// newLogger writes lines for people to a terminal, and JSON to anything else.
func newLogger(w io.Writer) *slog.Logger {
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	return slog.New(zerolog.NewSlogHandler(zerolog.New(w).Level(zerolog.InfoLevel)))
}
