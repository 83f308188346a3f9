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
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
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
func (c *Connector) stdio(def agent.MCPServer, box tool.Confiner, log *slog.Logger) (func(*link) (endpoint, error), error) {
	if def.URL != "" || len(def.Headers) > 0 {
		return nil, errors.New("url and headers are not allowed with transport stdio")
	}

	if def.Command == "" {
		return nil, errors.New("command is missing")
	}

	def.Command, def.CWD, def.Args = agentvalue.Resolve(def.Command, def.Env), agentvalue.Resolve(def.CWD, def.Env), slices.Clone(def.Args)
	for i, arg := range def.Args {
		def.Args[i] = agentvalue.Resolve(arg, def.Env)
	}

	for _, v := range append([]string{def.Command, def.CWD}, def.Args...) {
		if strings.ContainsRune(v, 0) {
			return nil, errors.New("command, args and cwd must not contain a NUL")
		}
	}

	if isPath := strings.ContainsFunc(def.Command, isSeparator); isPath && def.CWD == "" && !filepath.IsAbs(def.Command) {
		return nil, fmt.Errorf("command %.80q is relative, and the server starts in a private empty directory: set cwd", def.Command)
	}

	var own []string
	for _, name := range slices.Sorted(maps.Keys(def.Env)) {
		value := string(def.Env[name])
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("the variable %.80q is not valid in an environment", name)
		}

		own = append(own, name+"="+value)
	}

	name := def.Command
	args := def.Args
	cwd := def.CWD
	hide := newRedactor(def)
	var warn sync.Once
	return func(l *link) (endpoint, error) {
		release := func() {}
		base := c.cfg.Env
		dir := cwd
		if cwd == "" && box != nil {
			dir = box.Home()
			base = withoutDir(base, c.cfg.CWD, dir)
		} else if cwd == "" {
			private, err := c.dirs.Create()
			if err != nil {
				return nil, err
			}

			release = func() { c.dirs.Delete(private) }
			dir, base = private, withoutDir(base, c.cfg.CWD, private)
		} else if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.cfg.CWD, dir)
		}

		env := merge(base, own)
		path, err := executable(name, dir, env)
		if err == nil {
			var started *command
			started, err = start(l, &exec.Cmd{Path: path, Args: append([]string{name}, args...), Env: env, Dir: dir}, box, &lines{log: log, hide: hide, user: l.user})
			if err == nil {
				started.stray = &stray{log: log, hide: hide, warn: &warn}
				started.free, started.private = release, cwd == ""
				return started, nil
			}
		}

		release()
		return nil, err
	}, nil
}

// CheckCommand returns an error if the command of a stdio server does not exist. It starts nothing.
func (c *Connector) CheckCommand(def agent.MCPServer) error {
	if def.Transport != agentvalue.TransportStdio {
		return nil
	}

	var own []string
	for name, value := range def.Env {
		own = append(own, name+"="+string(value))
	}

	def.Command, def.CWD = agentvalue.Resolve(def.Command, def.Env), agentvalue.Resolve(def.CWD, def.Env)
	if !filepath.IsAbs(def.CWD) {
		def.CWD = filepath.Join(c.cfg.CWD, def.CWD)
	}

	_, err := executable(def.Command, def.CWD, merge(c.cfg.Env, own))
	return err
}

// executable returns the path of a command that starts in a directory with an environment. It finds
// out that there is no such file, before a sandbox reports that and what it permits.
func executable(command, dir string, env []string) (string, error) {
	path, err := child.LookPath(command, env)
	if err != nil {
		return "", err
	}

	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}

	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find executable %q: %w", command, err)
	}

	return path, nil
}

func isSeparator(c rune) bool { return c == '/' || c == filepath.Separator }

// merge returns an environment in which the variables of own override those of base. It is not nil,
// which would be the environment of this process.
func merge(base, own []string) []string {
	env := append([]string{}, base...)
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		env = append(slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), entry)
	}

	return env
}

// command is a started server with this side of its pipes.
type command struct {
	process *child.Process
	in      *stdinWriter
	out     *os.File
	stderr  *lines
	stray   *stray
	filter  *filter

	box     tool.Confiner // nil without one
	denied  func() []string
	private bool   // it started in a private directory
	free    func() // deletes the private directory
}

func start(l *link, cmd *exec.Cmd, box tool.Confiner, stderr *lines) (*command, error) {
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
	c := &command{box: box, in: &stdinWriter{feedEnd, l.end}, out: out, stderr: stderr, filter: l.filter}
	launch := func() (err error) {
		c.process, err = child.Start(cmd)
		return err
	}
	if box == nil {
		err = launch()
	} else {
		c.denied, err = box.Start(cmd, launch)
	}

	if err != nil {
		closeAll(feedEnd, out)
		return nil, err
	}

	return c, nil
}

// closeAll closes ends of pipes. The SDK may have closed some of them.
func closeAll(ends ...io.Closer) {
	for _, end := range ends {
		end.Close() //nolint:errcheck // no buffered data can be lost
	}
}

func (c *command) transport() sdk.Transport {
	return &pipe{in: c.in, out: c.out, filter: c.filter, stray: c.stray, values: make(chan value), closed: make(chan struct{})}
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

	ended := errors.New("the command ended before it responded")
	if err := c.process.Err(); err != nil {
		ended = fmt.Errorf("%w: %w", ended, err)
	}

	if c.private {
		ended = fmt.Errorf("%w (without cwd, it starts in an empty directory)", ended)
	}

	return c.withStderr(ended)
}

// withStderr adds the first line of stdout that is not a message, the last lines of stderr, which
// usually contain the reason, and what the sandbox permits.
func (c *command) withStderr(err error) error {
	if text := c.stray.explain(); text != "" {
		err = fmt.Errorf("%w%s", err, text)
	}

	if last := c.stderr.end(); last != "" {
		err = fmt.Errorf("%w; its stderr ends with: %s", err, last)
	}

	if c.box == nil {
		return err
	}

	return fmt.Errorf("%w; %s", err, strings.Join(append(c.denied(), c.box.Summary()), "; "))
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

func (c *command) release() { c.free() }

// stdinWriter is the stdin of a server. After an incomplete message the server cannot read any
// more, so the link ends.
type stdinWriter struct {
	*os.File
	end context.CancelCauseFunc
}

func (f *stdinWriter) Write(p []byte) (int, error) {
	var n int
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

// withoutDir returns an environment without the values through which a program would read the
// directory that agents edit: HOME and TMPDIR in it become private, and PATH does not contain it.
// Directories below it remain in PATH, because the runtime protects them. If agents edit the root
// of the file system, the environment is unchanged.
func withoutDir(env []string, edited, private string) []string {
	if edited == "" || filepath.Dir(edited) == edited {
		return env
	}

	changed := slices.Clone(env)
	for i, entry := range changed {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "HOME", "TMPDIR":
			if value != "" && within(value, edited) {
				changed[i] = name + "=" + private
			}
		case "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool { return !filepath.IsAbs(dir) || same(dir, edited) })
			changed[i] = name + "=" + strings.Join(dirs, string(filepath.ListSeparator))
		}
	}

	return changed
}

// within reports whether a path is dir or below it, through links and in another letter case too. A
// relative path is within the directory in which a program starts, and counts as within dir.
func within(path, dir string) bool {
	if !filepath.IsAbs(path) {
		return true
	}

	for {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}

		if same(path, dir) {
			return true
		}

		parent := filepath.Dir(path)
		if parent == path {
			return false
		}

		path = parent
	}
}

func same(a, b string) bool {
	first, err1 := os.Stat(a)
	second, err2 := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || err1 == nil && err2 == nil && os.SameFile(first, second)
}
