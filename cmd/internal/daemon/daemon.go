// Package daemon has the common parts of the server commands: settings, signals, logging and
// version.
package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// Level is the lowest level that is logged: debug, info, warn or error.
type Level struct{ zerolog.Level }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(text []byte) error {
	level, err := zerolog.ParseLevel(string(text))
	if err != nil || level < zerolog.DebugLevel || level > zerolog.ErrorLevel {
		return fmt.Errorf("%.80q is not a level of the log: use debug, info, warn or error", text)
	}

	l.Level = level
	return nil
}

// NewLogger returns a logger that writes text to a terminal and JSON to anything else.
func NewLogger(w io.Writer, least Level) *slog.Logger {
	setTimes()
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}

	log := zerolog.New(w).Level(least.Level).With().Timestamp().Logger()
	return slog.New(zerolog.NewSlogHandler(log))
}

// Listen listens at an address for a server of package httpserve, which needs plain TCP. Go uses
// multipath TCP by default.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	config := new(net.ListenConfig)
	config.SetMultipathTCP(false)
	return config.Listen(ctx, "tcp", addr)
}

// setTimes makes zerolog write times in UTC, in milliseconds and with a fixed width. zerolog has no
// other place for this than its globals.
var setTimes = sync.OnceFunc(func() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
})

// maxSecret bounds the file of a secret, in bytes.
const maxSecret = 64 << 10

// ReadSecret returns the content of a file without the line break at its end, and without the byte
// order mark that editors of Windows write.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}

	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path) // a pipe would be read forever
	}

	text, err := ReadFile(path, maxSecret)
	if err != nil {
		return "", err
	}

	secret := strings.TrimPrefix(string(text), "\ufeff")
	secret = strings.TrimSuffix(strings.TrimSuffix(secret, "\n"), "\r")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}

	return secret, nil
}

// MaxConfig bounds the configuration file of a program, in bytes.
const MaxConfig = 16 << 20

// ReadFile returns the content of a file that has at most a number of bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}

	return data, err
}

// Version returns the version of the module, which the go command sets from the tag or the commit.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}

	return "devel"
}

// Elsewhere is the fault of a setting whose driver a program does not link.
const Elsewhere = "this program does not have its driver: the programs hub and runtime have all, with the same settings"
