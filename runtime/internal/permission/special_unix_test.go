//go:build unix

package permission_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

// A command that reads a FIFO or a socket may wait until its timeout.
func TestAutoApprovesNoFileThatBlocks(t *testing.T) {
	dir, resolve := realDir(t)
	t.Chdir(dir) // the path of a socket has to be short
	require.NoError(t, syscall.Mkfifo("src/fifo", 0o600))
	require.NoError(t, os.Symlink("src/fifo", "tofifo"))
	socket, err := net.Listen("unix", "socket")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, socket.Close()) })
	auto := func(cfg permission.Config) *permission.Policy {
		cfg.Mode, cfg.Resolve, cfg.CWD = permission.ModeAuto, resolve, dir
		p, err := permission.New(cfg)
		require.NoError(t, err)
		return p
	}
	for _, command := range []string{
		"cat src/fifo", "cat tofifo", "cat src/up/tofifo", "cat socket", "cat <src/fifo", "cat src/a.go src/fifo", "head -n 1 src/fifo",
		"tail src/fifo", "wc -l " + filepath.Join(dir, "src", "fifo"), "grep x src/fifo", "grep -e x tofifo", "rg x src/fifo",
		"ls && cat src/fifo", "find . -newer src/fifo", "git diff src/fifo",
	} {
		require.Equal(t, permission.ErrMode, checkBash(auto(permission.Config{}), command), command)
		require.NoError(t, checkBash(auto(permission.Config{Allowed: []string{"Bash"}}), command), "what is listed is another matter")
	}
	byText, err := permission.New(permission.Config{Mode: permission.ModeAuto, CWD: dir})
	require.NoError(t, err)
	require.NoError(t, checkBash(byText, "cat src/fifo"), "without Resolve, no file is examined")
	unknown, err := permission.New(permission.Config{Mode: permission.ModeAuto, Resolve: resolve})
	require.NoError(t, err)
	require.NoError(t, checkBash(unknown, "cat src/fifo"), "without CWD, no file is examined")
	for _, command := range []string{"cat src/a.go", "cat src/new", "ls src", "grep -r x .", "find . -type p"} {
		require.NoError(t, checkBash(auto(permission.Config{}), command), command)
	}
}

func TestAutoApprovesNoDevice(t *testing.T) {
	resolve := func(path string) (string, error) { return path, nil }
	p, err := permission.New(permission.Config{Mode: permission.ModeAuto, Resolve: resolve, CWD: "/dev"})
	require.NoError(t, err)
	for _, command := range []string{"cat zero", "cat tty", "head -c 5 <zero"} {
		require.Equal(t, permission.ErrMode, checkBash(p, command), command)
	}
	require.NoError(t, checkBash(p, "ls ."))
}
