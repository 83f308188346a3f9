package main

import (
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

// maxLine bounds a line and a message from stdin, in bytes.
const maxLine = 4 << 20

// secret reads a password: from the terminal without an echo, or a line of stdin.
func (a *app) secret(prompt string) (string, error) {
	if isTerminal(a.stdin) {
		fmt.Fprint(a.stderr, prompt+": ")
		text, err := term.ReadPassword(int(a.stdin.(interface{ Fd() uintptr }).Fd()))
		fmt.Fprintln(a.stderr)
		return string(text), err
	}
	return a.line()
}

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
	return strings.TrimRight(line.String(), "\r"), nil
}

// rest reads stdin to its end.
func (a *app) rest() (string, error) {
	data, err := io.ReadAll(io.LimitReader(a.stdin, maxLine+1))
	if err == nil && len(data) > maxLine {
		err = fmt.Errorf("stdin has more than %d bytes", maxLine)
	}
	return string(data), err
}
