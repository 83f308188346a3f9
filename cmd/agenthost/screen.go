package main

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// screen is a terminal. Texts of a hub, an agent or a file cannot change it: all control characters
// except line ends and tabs are displayed as U+FFFD, and carriage returns are not displayed. The
// program writes its own escape sequences to the file.
type screen struct {
	*os.File

	mu   sync.Mutex // guards rest
	rest []byte     // the beginning of a character whose end follows
}

// screenOf returns a screen for a terminal, and any other file unchanged.
func screenOf(file *os.File) io.Writer {
	if isTerminal(file) {
		return &screen{File: file}
	}

	return file
}

// raw returns the file of a screen, for the escape sequences of the program.
func raw(stream io.Writer) io.Writer {
	if s, ok := stream.(*screen); ok {
		return s.File
	}

	return stream
}

func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.rest, data...)
	whole := len(text)
	for start := max(0, whole-utf8.UTFMax+1); start < whole; start++ {
		if utf8.RuneStart(text[start]) && !utf8.FullRune(text[start:]) {
			whole = start
			break
		}
	}

	_, err := s.File.WriteString(printable(strings.ReplaceAll(string(text[:whole]), "\r", "")))
	s.rest = append([]byte(nil), text[whole:]...)
	return len(data), err
}

// WriteString is Write. That of the file would not replace anything.
func (s *screen) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

// ReadFrom copies with Write. That of the file would not replace anything.
func (s *screen) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{s}, r) }
