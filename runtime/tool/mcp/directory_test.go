//go:build unix

package mcp_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// private is a connector whose servers start in private directories below dir.
type private struct {
	*world
	base string
}

func newPrivate(t *testing.T, change ...func(*mcp.Config)) *private {
	t.Helper()
	base := filepath.Join(t.TempDir(), "state", "mcp")
	return &private{newWorld(t, append([]func(*mcp.Config){func(c *mcp.Config) { c.Dir = base }}, change...)...), base}
}

func shell(script string) agent.MCPServer {
	return agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "sh", Args: []string{"-c", script}}
}

// output returns what a server writes to the file OUT, a word of its arguments, before it ends.
func (p *private) output(def agent.MCPServer) string {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "out")
	def.Args = slices.Clone(def.Args)
	for i, arg := range def.Args {
		def.Args[i] = strings.ReplaceAll(arg, "OUT", file)
	}
	s, err := p.Open("test", def, agent.Limits{}, nil)
	require.NoError(p.t, err)
	_, err = s.Tools(p.t.Context())
	require.NoError(p.t, s.Close())
	require.Error(p.t, err)
	text, readErr := os.ReadFile(file)
	require.NoError(p.t, readErr, err)
	return strings.TrimSpace(string(text))
}

func (p *private) requireEmpty() {
	p.t.Helper()
	left, err := os.ReadDir(p.base)
	require.NoError(p.t, err)
	require.Empty(p.t, left)
}

func TestServersStartInAPrivateEmptyDirectory(t *testing.T) {
	p := newPrivate(t)
	text := p.output(shell(`echo "[$(pwd)] [$(ls -A)] [$(ls -ld . | cut -c1-10)]" >OUT`))
	require.Regexp(t, `^\[`+p.PrivateDir()+`/\d+\] \[\] \[drwx------\]$`, text)
	require.NotEqual(t, text, p.output(shell(`pwd >OUT`)), "each has its own")
	p.requireEmpty()
}

func TestServersDoNotReadTheDirectoryOfTheAgent(t *testing.T) {
	p := newPrivate(t)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "rc"), []byte("echo planted\n"), 0o700))
	for _, script := range []string{". ./rc", ". rc", "./rc", "sh rc", "sh ./rc"} {
		require.NotContains(t, p.output(shell("exec >OUT 2>&1; "+script+" || echo missing")), "planted", script)
	}
	for _, command := range []string{"./rc", "sub/../rc", "../rc"} {
		_, err := p.Open("test", agent.MCPServer{Transport: agentvalue.TransportStdio, Command: command}, agent.Limits{}, nil)
		require.ErrorContains(t, err, "is relative, and the server starts in a private empty directory: set cwd")
	}
	_, err := p.Open("test", agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "sh", CWD: "a\x00"}, agent.Limits{}, nil)
	require.ErrorContains(t, err, "must not contain a NUL")
	with := shell("exec >OUT; . ./rc")
	for _, dir := range []string{".", p.dir, "sub/.."} {
		require.NoError(t, os.MkdirAll(filepath.Join(p.dir, "sub"), 0o700))
		with.CWD = dir
		require.Equal(t, "planted", p.output(with), "with a cwd it does")
	}
	with = agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "./rc", Args: []string{"OUT"}, CWD: "."}
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "rc"), []byte("#!/bin/sh\necho planted >$1\n"), 0o700))
	require.Equal(t, "planted", p.output(with))
}

// The command line of a server refers to variables of its own environment only, and no shell reads
// their values.
func TestCommandLinesReferToTheEnvironment(t *testing.T) {
	p := newPrivate(t, func(c *mcp.Config) { c.Env = append(c.Env, "OTHER=other") })
	def := agent.MCPServer{
		Transport: agentvalue.TransportStdio, Command: "${env:SHELL}", CWD: "${env:DIR}",
		Args: []string{"-c", `printf '[%s]' "$@" "$(pwd)" >OUT`, "x", "--token=${env:TOKEN}${env:TOKEN}", "${env:OTHER}", "${TOKEN}"},
		Env:  map[string]agent.Secret{"SHELL": "sh", "DIR": "sub", "TOKEN": "$(a) b", "NESTED": "${env:TOKEN}"},
	}
	require.NoError(t, os.MkdirAll(filepath.Join(p.dir, "sub"), 0o700))
	require.Equal(t, "[--token=$(a) b$(a) b][${env:OTHER}][${TOKEN}]["+filepath.Join(p.dir, "sub")+"]", p.output(def))
}

func TestEnvironmentOfAPrivateServer(t *testing.T) {
	outside := t.TempDir()
	for name, row := range map[string]struct {
		env  []string // D is the directory of the agents, L a link to it
		own  map[string]agent.Secret
		cwd  string
		want string // P is the private directory
	}{
		"outside":              {[]string{"HOME=/root", "TMPDIR=/var/tmp"}, nil, "", "HOME=/root TMPDIR=/var/tmp PATH=/usr/bin:/bin"},
		"the directory":        {[]string{"HOME=D", "TMPDIR=D/"}, nil, "", "HOME=P TMPDIR=P PATH=/usr/bin:/bin"},
		"below it":             {[]string{"HOME=D/home", "TMPDIR=D/a/../tmp"}, nil, "", "HOME=P TMPDIR=P PATH=/usr/bin:/bin"},
		"above it":             {[]string{"HOME=D/..", "TMPDIR=/"}, nil, "", "HOME=D/.. TMPDIR=/ PATH=/usr/bin:/bin"},
		"through a link":       {[]string{"HOME=L", "TMPDIR=L/missing/x"}, nil, "", "HOME=P TMPDIR=P PATH=/usr/bin:/bin"},
		"relative":             {[]string{"HOME=home", "TMPDIR=."}, nil, "", "HOME=P TMPDIR=P PATH=/usr/bin:/bin"},
		"empty":                {[]string{"HOME=", "TMPDIR="}, nil, "", "HOME= TMPDIR= PATH=/usr/bin:/bin"},
		"PATH":                 {[]string{"PATH=D:L:D/.:.:bin::D/bin:/usr/bin:/bin"}, nil, "", "HOME= TMPDIR= PATH=D/bin:/usr/bin:/bin"},
		"of the definition":    {[]string{"HOME=D"}, map[string]agent.Secret{"HOME": "/own", "PATH": "/bin:."}, "", "HOME=/own TMPDIR= PATH=/bin:."},
		"with its own cwd":     {[]string{"HOME=D", "TMPDIR=D", "PATH=D:/usr/bin:/bin"}, nil, ".", "HOME=D TMPDIR=D PATH=D:/usr/bin:/bin"},
		"with a cwd elsewhere": {[]string{"HOME=D"}, nil, outside, "HOME=D TMPDIR= PATH=/usr/bin:/bin"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			link := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Symlink(dir, link))
			place := strings.NewReplacer("D", dir, "L", link)
			p := newPrivate(t, func(c *mcp.Config) {
				c.CWD = dir
				c.Env = []string{"PATH=/usr/bin:/bin"}
				for _, v := range row.env {
					name, value, _ := strings.Cut(v, "=")
					if name == "PATH" {
						c.Env = slices.DeleteFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
					}
					c.Env = append(c.Env, name+"="+strings.NewReplacer("D", dir, "L", link).Replace(value))
				}
			})
			def := shell(`echo "HOME=$HOME TMPDIR=$TMPDIR PATH=$PATH|$(pwd)" >OUT`)
			def.Env, def.CWD = row.own, row.cwd
			text, private, _ := strings.Cut(p.output(def), "|")
			want := strings.NewReplacer("=P", "="+private).Replace(strings.ReplaceAll(row.want, "TMPDIR", "T"))
			want = strings.ReplaceAll(place.Replace(want), "T=", "TMPDIR=")
			require.Equal(t, want, text)
		})
	}
}

func TestPrivateDirectoriesAreDeleted(t *testing.T) {
	p := newPrivate(t)
	for name, def := range map[string]agent.MCPServer{
		"with files":                 shell(`mkdir -p a/b; echo x >a/b/c; ln -s / a/root; echo end >OUT`),
		"with read-only directories": shell(`mkdir -p a/b/c; echo x >a/b/f; chmod 0 a/b/c; chmod 500 a/b a .; echo end >OUT`),
		"of a server that is killed": shell(`echo end >OUT; kill -9 $$`),
	} {
		require.Equal(t, "end", p.output(def), name)
		p.requireEmpty()
	}
	s, err := p.Open("test", agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "no-such-command"}, agent.Limits{}, nil)
	require.NoError(t, err)
	_, err = s.Tools(t.Context())
	require.ErrorContains(t, err, "find executable")
	p.requireEmpty()
	require.NoError(t, s.Close())

	def := stdio(t, "tools")
	var servers []tool.Server
	for range 3 {
		s, err := p.Open("test", def, agent.Limits{}, nil)
		require.NoError(t, err)
		dir := call(t, find(t, s, "cwd"), `{}`).Output
		require.DirExists(t, dir)
		servers = append(servers, s)
	}
	held, err := os.ReadDir(p.PrivateDir())
	require.NoError(t, err)
	require.Len(t, held, 4, "three directories and the lock")
	for i, s := range servers {
		require.True(t, call(t, find(t, s, "crash"), `{}`).IsError)
		requireStatus(t, s, tool.Pending)
		require.DirExists(t, call(t, find(t, s, "cwd"), `{}`).Output, "it has started again")
		require.NoError(t, s.Close())
		if i < len(servers)-1 {
			require.DirExists(t, p.PrivateDir())
		}
	}
	p.requireEmpty()
	require.NotEmpty(t, p.output(shell(`pwd >OUT`)), "and a later one starts")
	p.requireEmpty()
}

// A process that is killed deletes nothing. The next one does.
func TestDirectoriesOfKilledProcessesAreDeleted(t *testing.T) {
	p := newPrivate(t)
	live, err := p.Open("test", stdio(t, "tools"), agent.Limits{}, nil)
	require.NoError(t, err)
	used := call(t, find(t, live, "cwd"), `{}`).Output

	middle := stdio(t, "middle")
	cmd := exec.CommandContext(t.Context(), middle.Command, middle.Args...)
	cmd.Dir, cmd.Stderr, cmd.Env = t.TempDir(), p.log, append(os.Environ(), "PRIVATE="+p.base)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n') // it is ready
	require.NoError(t, err)
	left, err := os.ReadDir(p.base)
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.NoError(t, syscall.Kill(cmd.Process.Pid, syscall.SIGKILL))
	require.Error(t, cmd.Wait())

	outside := t.TempDir()
	old := filepath.Join(p.base, "agenthost-mcp-old.new")
	require.NoError(t, os.Mkdir(old, 0o700))
	require.NoError(t, os.Chtimes(old, time.Now(), time.Now().Add(-3*time.Hour)))
	kept := []string{filepath.Base(p.PrivateDir()), "agenthost-mcp-new.new", "agenthost-mcp-link", "agenthost-mcp-file", "other"}
	require.NoError(t, os.Mkdir(filepath.Join(p.base, kept[1]), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(p.base, kept[2])))
	require.NoError(t, os.WriteFile(filepath.Join(p.base, kept[3]), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(p.base, kept[4]), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "lock"), nil, 0o600))
	blocked := filepath.Join(p.base, "agenthost-mcp-fifo")
	require.NoError(t, os.Mkdir(blocked, 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(blocked, "lock"), 0o600))

	next := newPrivate(t, func(c *mcp.Config) { c.Dir = p.base })
	require.NotEmpty(t, next.output(shell(`pwd >OUT`)))
	left, err = os.ReadDir(p.base)
	require.NoError(t, err)
	var names []string
	for _, e := range left {
		if e.Name() != "agenthost-mcp-fifo" { // it does not block
			names = append(names, e.Name())
		}
	}
	require.ElementsMatch(t, kept, names)
	require.FileExists(t, filepath.Join(outside, "lock"))
	require.DirExists(t, used)
	require.Equal(t, used, call(t, find(t, live, "cwd"), `{}`).Output)
	require.NoError(t, live.Close())
	require.NoDirExists(t, p.PrivateDir())
}
