package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/tool"
)

const (
	maxBashTimeout = 10 * time.Minute

	// A stopped command ends within a second: it receives SIGTERM, then SIGKILL. Bash does not wait
	// for a process that left the group and still holds the output.
	bashGrace     = 200 * time.Millisecond
	bashWaitDelay = 500 * time.Millisecond

	maxCommand = 100_000 // bytes; the maximum of one argument is 128 KiB on Linux

	bashNoteRoom    = 200   // bytes of the output for the line about how a command ended
	sandboxNoteRoom = 2_000 // bytes of the output for what the sandbox denied, at most half of it
)

// bashArgs start bash so that the environment adds nothing to the command that the permission rules
// have checked. With -p, bash ignores exported functions, BASH_ENV, SHELLOPTS, BASHOPTS, CDPATH and
// GLOBIGNORE. With --norc, it does not read ~/.bashrc, as it does for -c if SSH_CLIENT is set.
var bashArgs = []string{"bash", "--norc", "-p", "-c"}

type bashInput struct {
	Command     string   `json:"command"`
	Timeout     *float64 `json:"timeout"` // ms
	Description string   `json:"description"`
}

// limit returns the timeout of the call, or the default.
func (in *bashInput) limit(fallback time.Duration) (time.Duration, error) {
	switch {
	case in.Timeout == nil:
		return fallback, nil
	case *in.Timeout < 1:
		return fallback, fmt.Errorf("the timeout is %v: use milliseconds, from 1 to %d", *in.Timeout, maxBashTimeout.Milliseconds())
	case *in.Timeout >= float64(maxBashTimeout.Milliseconds()):
		return maxBashTimeout, nil
	}

	return time.Duration(*in.Timeout * float64(time.Millisecond)), nil
}

type bash struct {
	tool.Tool
}

var _ tool.Timed = bash{}

// Preview returns the command, which the policy may have generated. The engine calls it.
func (bash) Preview(_ context.Context, input json.RawMessage) (string, error) {
	in, err := decodeInput[bashInput](input)
	return in.Command, err
}

func newBash(cfg *Config) tool.Tool {
	confined := ""
	if cfg.Sandbox != nil {
		confined = "\n" + cfg.Sandbox.Summary()
	}

	return bash{tool.Typed(tool.Spec{
		Name: "Bash",
		Description: `Runs a command with bash in the working directory, and returns what it writes to stdout and stderr, in the order of the writes.
Each call starts a new shell: the directory, variables and functions of a call do not affect the next one. Stdin is empty and there is no terminal, so use options that prevent prompts, pagers and editors.
Background processes end with the command. In long output, the middle is omitted. If the command fails, the last line is "Exit code N".
Use Read, Write, Edit, Glob and Grep instead of commands where they are sufficient.` + confined,
		InputSchema: inputSchema(`"command"`, `
    "command": {"type": "string", "description": "The command, a bash script"},
    "timeout": {"type": "integer", "minimum": 1, "maximum": 600000, "description": "Timeout in milliseconds, if the default is not suitable"},
    "description": {"type": "string", "description": "What the command does, in five to ten words"}`),
	}, cfg.bash)}
}

// utf8Locale returns an environment whose locale uses UTF-8. Commands are UTF-8: in a locale such
// as zh_CN.GBK, bash would treat the backslash in "あ\;" as the second byte of a character, and run
// a command that differs from the one that the permission rules have checked. The result is not
// nil.
func utf8Locale(env []string) []string {
	result := append([]string{}, env...)
	for i, variable := range result {
		name, locale, _ := strings.Cut(variable, "=")
		if name != "LANG" && !strings.HasPrefix(name, "LC_") {
			continue
		}

		language, charset, _ := strings.Cut(locale, ".")
		charset, _, _ = strings.Cut(strings.ToLower(charset), "@")
		if charset != "utf-8" && charset != "utf8" && (language != "C" && language != "POSIX" || charset != "") && locale != "" {
			result[i] = name + "=C.UTF-8"
		}
	}

	return result
}

// Timeout returns the timeout in the input.
func (bash) Timeout(input json.RawMessage, limit time.Duration) time.Duration {
	var in bashInput
	if err := jsonlimit.Unmarshal(input, &in); err != nil {
		return limit // the call returns the error
	}

	limit, _ = in.limit(limit)
	return limit
}

func (c *Config) bash(ctx context.Context, in bashInput) (tool.Result, error) {
	if strings.TrimSpace(in.Command) == "" {
		return tool.Result{}, errors.New("the command is empty")
	}

	if len(in.Command) > maxCommand {
		return tool.Result{}, fmt.Errorf("the command has %d bytes, at most %d are allowed: write it to a file and run the file", len(in.Command), maxCommand)
	}

	if strings.ContainsRune(in.Command, 0) {
		return tool.Result{}, errors.New("the command contains a null byte")
	}

	if _, err := in.limit(0); err != nil {
		return tool.Result{}, err
	}

	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}

	room := bashNoteRoom
	if c.Sandbox != nil {
		room += min(sandboxNoteRoom, c.MaxOutput/2)
	}

	output := headTail{limit: c.MaxOutput - room}
	cmd := &exec.Cmd{
		Path: c.BashPath, Args: append(slices.Clone(bashArgs), in.Command), Dir: c.Dir.Path(),
		Env:    utf8Locale(c.Env),
		Stdout: &output, Stderr: &output, // one pipe preserves the order of the writes
		WaitDelay: bashWaitDelay,
	}
	p, denied, err := c.start(cmd)
	if err != nil {
		return tool.Result{}, err
	}

	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(bashGrace)
		text, truncated := output.text()
		text = strings.TrimSuffix(text, "\n") // the error follows on the next line
		text = withLine(text, c.sandboxNote(denied(), text, false, room))
		return tool.Result{Output: text, Truncated: truncated}, fmt.Errorf("the command was stopped: %w", context.Cause(ctx))
	}

	text, truncated := output.text()
	res := tool.Result{Output: text, Truncated: truncated}
	if exit, ok := errors.AsType[*exec.ExitError](p.Err()); ok {
		res.IsError = true
		status := fmt.Sprintf("Exit code %d", exit.ExitCode())
		if signal := child.SignalName(exit); signal != "" {
			status = "Killed by signal " + signal
		}

		res.Output = withLine(withLine(text, c.sandboxNote(denied(), text, true, room)), status)
	} else if err := p.Err(); err != nil && !errors.Is(err, exec.ErrWaitDelay) { // a process outside the group holds the output
		return res, fmt.Errorf("run the command: %w", err)
	} else {
		res.Output = withLine(text, c.sandboxNote(denied(), text, false, room))
	}

	res.Output = cmp.Or(res.Output, "(no output)")
	return res, nil
}

// start starts cmd, in the sandbox if there is one. The returned function returns what the
// sandbox has denied.
func (c *Config) start(cmd *exec.Cmd) (*child.Process, func() []string, error) {
	var err error
	var p *child.Process
	if c.Sandbox == nil {
		p, err = child.Start(cmd)
		return p, func() []string { return nil }, err
	}

	denied, err := c.Sandbox.Start(cmd, func() (err error) {
		p, err = child.Start(cmd)
		return err
	})
	return p, denied, err
}

// sandboxNote returns the connections that were denied to a command and that its output does not
// name. If the output of a command that has failed has a word of the system for a denied access,
// the note ends with the summary of the sandbox. It has at most room bytes.
func (c *Config) sandboxNote(denied []string, output string, failed bool, room int) string {
	if c.Sandbox == nil {
		return ""
	}

	denied = slices.DeleteFunc(denied, func(reason string) bool { return strings.Contains(output, reason) })
	lower := strings.ToLower(output)
	if failed && slices.ContainsFunc(denialWords, func(word string) bool { return strings.Contains(lower, word) }) {
		denied = append(denied, c.Sandbox.Summary())
	}

	return excerpt.Shorten(strings.Join(denied, "\n"), room-bashNoteRoom)
}

// denialWords are what programs print, in lower case, when the system denies an access.
var denialWords = []string{
	"permission denied", "operation not permitted", "read-only file system", "device or resource busy", "does not exist; check", "no such file or directory", "network is unreachable",
	"could not resolve", "name resolution", "connection refused", "eacces", "eperm", "erofs", "ebusy", "enoent", "enotfound", "econnrefused",
}

// withLine adds a line to text, which need not end with a line end.
func withLine(text, line string) string {
	if line == "" {
		return text
	}

	return strings.TrimLeft(strings.TrimSuffix(text, "\n")+"\n"+line, "\n")
}

// headTail stores the beginning and the end of a text. Bytes that are not UTF-8, and null bytes,
// become U+FFFD. Memory is bounded by limit.
type headTail struct {
	limit int // bytes of text to store

	head    []byte // at most half of limit
	tail    []byte // the rest; a ring buffer if it is full
	oldest  int    // the index of the oldest byte in a full tail
	total   int64  // bytes of text written
	partial []byte // an incomplete rune at the end
}

func (h *headTail) Write(p []byte) (int, error) {
	n := len(p)
	if len(h.partial) > 0 {
		p = append(h.partial, p...)
	}

	whole := wholeRunes(p)
	h.append(p[:whole])
	h.partial = bytes.Clone(p[whole:])
	return n, nil
}

func (h *headTail) append(p []byte) {
	if !utf8.Valid(p) || bytes.IndexByte(p, 0) >= 0 {
		p = bytes.ReplaceAll(bytes.ToValidUTF8(p, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
	}

	h.total += int64(len(p))
	half := h.limit / 2
	n := min(half-len(h.head), len(p))
	h.head = append(h.head, p[:n]...)
	p = p[n:]
	size := h.limit - half
	p = p[max(0, len(p)-size):]
	n = min(size-len(h.tail), len(p))
	h.tail = append(h.tail, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(h.tail[h.oldest:], p)
		h.oldest = (h.oldest + n) % size
	}
}

// text returns the stored text, and reports whether it is truncated. Nothing may be
// written after it.
func (h *headTail) text() (string, bool) {
	if len(h.partial) > 0 {
		h.append([]byte("\uFFFD"))
		h.partial = nil
	}

	tail := slices.Concat(h.tail[h.oldest:], h.tail[:h.oldest])
	if h.total == int64(len(h.head)+len(tail)) {
		return string(h.head) + string(tail), false
	}

	head := h.head[:wholeRunes(h.head)]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}

	omitted := h.total - int64(len(head)+len(tail))
	return fmt.Sprintf("%s\n[%d bytes cut]\n%s", head, omitted, tail), true
}

// wholeRunes returns the length of p without an incomplete rune at its end.
func wholeRunes(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if last := p[len(p)-back:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				break
			}

			return len(p) - back
		}
	}

	return len(p)
}
