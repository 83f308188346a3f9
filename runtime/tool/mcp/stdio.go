package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The time between closing stdin and SIGTERM, and between SIGTERM and SIGKILL.
const (
	closeGrace = 500 * time.Millisecond
	termGrace  = 300 * time.Millisecond
)

// writeTime is the time that a server may take to read writeChunk bytes.
const (
	writeTime  = 10 * time.Second
	writeChunk = 64 << 10
)

// stdio checks the definition of a command and returns a function that starts it.
func stdio(cfg Config, def agent.MCPServer, log *slog.Logger) (func(*link) (endpoint, error), error) {
	if def.URL != "" || len(def.Headers) > 0 {
		return nil, errors.New("url and headers are not allowed with transport stdio")
	}
	if def.Command == "" {
		return nil, errors.New("command is missing")
	}
	for _, v := range append([]string{def.Command}, def.Args...) {
		if strings.ContainsRune(v, 0) {
			return nil, errors.New("command and args must not contain a NUL")
		}
	}
	env := append([]string{}, cfg.Env...) // not nil, which would be the environment of this process
	for _, name := range slices.Sorted(maps.Keys(def.Env)) {
		value := string(def.Env[name])
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("the variable %.80q is not valid in an environment", name)
		}
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		env = append(env, name+"="+value)
	}
	command, args, hide := def.Command, slices.Clone(def.Args), newRedactor(def)
	return func(l *link) (endpoint, error) {
		path, err := child.LookPath(command, env)
		if err != nil {
			return nil, err
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(cfg.CWD, path)
		}
		return start(l, &exec.Cmd{
			Path: path, Args: append([]string{command}, args...), Env: env, Dir: cfg.CWD,
		}, &lines{log: log, hide: hide})
	}, nil
}

// command is a started server with this side of its pipes.
type command struct {
	process *child.Process
	in      *stdinWriter
	out     *os.File
	stderr  *lines
	filter  *filter
}

func start(l *link, cmd *exec.Cmd, stderr *lines) (*command, error) {
	stdin, feedEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer closeAll(stdin)
	out, stdout, err := os.Pipe()
	if err != nil {
		closeAll(feedEnd)
		return nil, err
	}
	defer closeAll(stdout)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = termGrace
	process, err := child.Start(cmd)
	if err != nil {
		closeAll(feedEnd, out)
		return nil, err
	}
	return &command{process, &stdinWriter{feedEnd, l.end}, out, stderr, l.filter}, nil
}

// closeAll closes ends of pipes. The SDK may have closed some of them.
func closeAll(ends ...io.Closer) {
	for _, end := range ends {
		end.Close() //nolint:errcheck // no buffered data can be lost
	}
}

func (c *command) transport() sdk.Transport {
	return &pipe{in: c.in, out: c.out, filter: c.filter, values: make(chan value), closed: make(chan struct{})}
}

func (c *command) done() <-chan struct{} { return c.process.Done() }

func (c *command) explain(err error) error {
	if errors.Is(err, errTimeout) {
		return c.withStderr(err)
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, sdk.ErrConnectionClosed) && !isBrokenPipe(err) {
		return err
	}
	select { // the pipe closes before the end of the process is known, and a descendant may hold its stderr
	case <-c.process.Done():
	case <-time.After(termGrace + closeGrace):
		return c.withStderr(errors.New("the command closed its stdout before it responded"))
	}
	if ended := c.process.Err(); ended != nil {
		return c.withStderr(fmt.Errorf("the command ended before it responded: %w", ended))
	}
	return c.withStderr(errors.New("the command ended before it responded"))
}

// withStderr adds the last lines of stderr, which usually contain the reason.
func (c *command) withStderr(err error) error {
	if last := c.stderr.end(); last != "" {
		return fmt.Errorf("%w; its stderr ends with: %s", err, last)
	}
	return err
}

func (c *command) terminate() {
	closeAll(c.in)
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.process.Done():
	case <-timer.C:
		c.process.Stop(termGrace)
	}
	closeAll(c.out)
}

func (c *command) release() {}

// stdinWriter is the stdin of a server. After an incomplete message the server cannot read any
// more, so the link ends.
type stdinWriter struct {
	*os.File
	end context.CancelCauseFunc
}

func (f *stdinWriter) Write(p []byte) (n int, err error) {
	for rest := range slices.Chunk(p, writeChunk) {
		//nolint:errcheck // without deadlines of pipes, a call still ends with its context
		f.SetWriteDeadline(time.Now().Add(writeTime))
		m, err := f.File.Write(rest)
		n += m
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = errors.New("the server does not read its input")
			}
			f.end(err)
			return n, err
		}
	}
	return n, nil
}
