package daemon

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// NewLogger returns a logger that writes text to a terminal and JSON to anything else.
func NewLogger(w io.Writer) *slog.Logger {
	setTimes()
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	log := zerolog.New(w).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	return slog.New(zerolog.NewSlogHandler(log))
}

// setTimes makes zerolog write times in UTC, in milliseconds and with a fixed width. zerolog has no
// other place for this than its globals.
var setTimes = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
})
