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

// The steps of hanging up: stdin closed, SIGTERM, SIGKILL.
const (
	afterClose = 500 * time.Millisecond
	afterTerm  = 300 * time.Millisecond
)

// stalled is how long a server may leave a part of a message unread, at most chunk bytes.
const (
	stalled = 10 * time.Second
	chunk   = 64 << 10
)

// stdio checks the definition of a command and answers what starts it.
func stdio(cfg Config, def agent.MCPServer, log *slog.Logger) (func(*link) (carrier, error), error) {
	if def.URL != "" || len(def.Headers) > 0 {
		return nil, errors.New("url and headers have no meaning with transport stdio")
	}
	if def.Command == "" {
		return nil, errors.New("command is missing")
	}
	for _, v := range append([]string{def.Command}, def.Args...) {
		if strings.ContainsRune(v, 0) {
			return nil, errors.New("command and args cannot hold a NUL")
		}
	}
	env := append([]string{}, cfg.Env...) // not nil, which would mean the environment of this process
	for _, name := range slices.Sorted(maps.Keys(def.Env)) {
		value := string(def.Env[name])
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("the variable %.80q cannot be in an environment", name)
		}
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		env = append(env, name+"="+value)
	}
	command, args, hide := def.Command, slices.Clone(def.Args), concealer(def)
	return func(l *link) (carrier, error) {
		path, err := child.Look(command, env)
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

// command is a server that was started, and this end of its pipes.
type command struct {
	process *child.Process
	in      *feed
	out     *os.File
	stderr  *lines
}

func start(l *link, cmd *exec.Cmd, stderr *lines) (*command, error) {
	stdin, feedEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer shut(stdin)
	out, stdout, err := os.Pipe()
	if err != nil {
		shut(feedEnd)
		return nil, err
	}
	defer shut(stdout)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = afterTerm
	process, err := child.Start(cmd)
	if err != nil {
		shut(feedEnd, out)
		return nil, err
	}
	return &command{process, &feed{feedEnd, l.end}, out, stderr}, nil
}

// shut closes ends of pipes, of which the SDK may have closed some.
func shut(ends ...io.Closer) {
	for _, end := range ends {
		end.Close() //nolint:errcheck // nothing is buffered in it that could be lost
	}
}

func (c *command) transport() sdk.Transport {
	return &sdk.IOTransport{Reader: c.out, Writer: c.in, MaxLineLength: maxMessage}
}

func (c *command) done() <-chan struct{} { return c.process.Done() }

func (c *command) explain(err error) error {
	if errors.Is(err, errTimeout) {
		return c.quote(err)
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, sdk.ErrConnectionClosed) && !brokenPipe(err) {
		return err
	}
	select { // its end of the pipe closes a little before it is known to have ended, and a descendant may hold its stderr
	case <-c.process.Done():
	case <-time.After(afterTerm + afterClose):
		return c.quote(errors.New("the command closed its stdout before it answered"))
	}
	if ended := c.process.Err(); ended != nil {
		return c.quote(fmt.Errorf("the command ended before it answered: %w", ended))
	}
	return c.quote(errors.New("the command ended before it answered"))
}

// quote adds what the command said last: why it does not start, as a rule.
func (c *command) quote(err error) error {
	if said := c.stderr.end(); said != "" {
		return fmt.Errorf("%w; its stderr ends with: %s", err, said)
	}
	return err
}

func (c *command) hangUp() {
	shut(c.in)
	timer := time.NewTimer(afterClose)
	defer timer.Stop()
	select {
	case <-c.process.Done():
	case <-timer.C:
		c.process.Stop(afterTerm)
	}
	shut(c.out)
}

func (c *command) release() {}

// feed is the stdin of a server. A message that could not be written whole leaves the rest unreadable: it ends the link.
type feed struct {
	*os.File
	end context.CancelCauseFunc
}

func (f *feed) Write(p []byte) (n int, err error) {
	for rest := range slices.Chunk(p, chunk) {
		//nolint:errcheck // where a pipe has no deadlines a call still ends with its context
		f.SetWriteDeadline(time.Now().Add(stalled))
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
