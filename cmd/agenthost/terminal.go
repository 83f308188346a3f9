package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(file.Fd())
}

// columns returns the width of a terminal, and 0 for any other stream.
func columns(stream any) int {
	file, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}

	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}

	return width
}

// maxLine bounds a line and a message from stdin, in bytes.
const maxLine = 4 << 20

// secret reads a password: from the terminal without an echo, or a line of stdin.
func (a *app) secret(prompt string) (string, error) {
	if !isTerminal(a.stdin) {
		return a.line()
	}

	// The echo is off before the prompt is displayed: a user can type at once.
	fd := int(a.stdin.(interface{ Fd() uintptr }).Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("disable the echo of the terminal: %w", err)
	}

	defer func() { _ = term.Restore(fd, state) }()
	input := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{byByte{a.stdin}, raw(a.stderr)}, "")
	text, err := input.ReadPassword(printable(prompt) + ": ")
	if errors.Is(err, io.EOF) { // Ctrl-C or Ctrl-D
		err = errInterrupted
	}

	return text, err
}

// flush discards what the user has typed on a terminal and no reader has yet.
func (a *app) flush() {
	if isTerminal(a.stdin) {
		flushTerminal(a.stdin.(interface{ Fd() uintptr }).Fd())
	}
}

// byByte reads a byte at a time, so that the next reader has what follows a line.
type byByte struct{ io.Reader }

func (r byByte) Read(data []byte) (int, error) { return r.Reader.Read(data[:min(1, len(data))]) }

// ask reads a line after a prompt.
func (a *app) ask(prompt string) (string, error) {
	if isTerminal(a.stdin) {
		fmt.Fprint(a.stderr, prompt+": ")
	}

	return a.line()
}

// line reads a line of stdin, byte by byte, so that the next reader has the rest.
func (a *app) line() (string, error) {
	var line strings.Builder
	one := make([]byte, 1)
	for line.Len() < maxLine {
		n, err := a.stdin.Read(one)
		if n == 1 && one[0] == '\n' {
			break
		}

		line.Write(one[:n])
		if err == io.EOF && line.Len() > 0 {
			break
		}

		if err != nil {
			return "", fmt.Errorf("read stdin: %w", err)
		}
	}

	return strings.TrimRight(withoutMark(line.String()), "\r"), nil
}

// withoutMark returns piped text without the byte order mark that shells of Windows write before
// it.
func withoutMark(text string) string { return strings.TrimPrefix(text, "\ufeff") }

// rest reads stdin to its end.
func (a *app) rest() (string, error) {
	data, err := io.ReadAll(io.LimitReader(a.stdin, maxLine+1))
	if err == nil && len(data) > maxLine {
		err = fmt.Errorf("stdin has more than %d bytes", maxLine)
	}

	return withoutMark(string(data)), err
}

// confirm prints what would happen and asks the user. It fails if the user does not agree, or if
// there is no terminal.
func (a *app) confirm(ctx context.Context, what, question string) error {
	fmt.Fprint(a.stderr, what)
	if !isTerminal(a.stdin) {
		return errors.New("nothing was changed: stdin is not a terminal, so that you cannot be asked: add --yes to agree to the above")
	}

	a.flush()
	reply := make(chan string, 1)
	go func() { // it ends with the program if the user does not reply
		line, _ := a.ask(question + " [y/N]") // no reply is a no
		reply <- line
	}()
	select {
	case line := <-reply:
		if line := strings.ToLower(strings.TrimSpace(line)); line == "y" || line == "yes" {
			return nil
		}

		return errors.New("nothing was changed: you did not agree")
	case <-ctx.Done():
		return errInterrupted
	}
}
