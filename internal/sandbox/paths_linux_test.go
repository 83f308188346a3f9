package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// What is hidden is not readable in a toolchain, also through links, and the rest of it is.
func TestHidden(t *testing.T) {
	for name, simulate := range kernels {
		t.Run(name, func(t *testing.T) {
			simulate(t)
			tools := filepath.Join(t.TempDir(), "tools")
			data, inside := filepath.Join(tools, "lib", "data"), filepath.Join(tools, "lib", "data", "mine")
			for _, dir := range []string{filepath.Join(tools, "bin"), inside} {
				require.NoError(t, os.MkdirAll(dir, 0o700))
			}
			for link, target := range map[string]string{"around": "lib", "loop": tools, "data": data, "below": filepath.Join(data, "secret"), "next": "lib/other"} {
				require.NoError(t, os.Symlink(target, filepath.Join(tools, link)))
			}
			for _, file := range []string{filepath.Join(tools, "lib", "other"), filepath.Join(data, "secret"), filepath.Join(inside, "file")} {
				require.NoError(t, os.WriteFile(file, []byte("content of "+filepath.Base(file)), 0o600))
			}
			s := open(t, func(p *sandbox.Policy) {
				p.Path += ":" + filepath.Join(tools, "bin")
				p.Hidden = []string{filepath.Join(tools, "data"), filepath.Join(tools, "missing")}
				p.Read = []string{inside}
			})
			output, _ := bash(t, s, "cd "+tools+"; cat lib/data/secret around/data/secret loop/lib/data/secret data/secret below; ls lib/data; cat lib/other next lib/data/mine/file")
			require.NotContains(t, output, "content of secret")
			require.Equal(t, 2, strings.Count(output, "content of other"), output)
			require.Equal(t, 1, strings.Count(output, "content of file"), output)
		})
	}
}

// A command cannot replace what another one may read: neither in its own directory, nor in that of
// another sandbox.
func TestLinksInPlaceOfPermittedPaths(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			secret := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(secret, "file"), []byte("secret"), 0o600))
			dir := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "tools", "bin"), 0o700))
			own := open(t, func(p *sandbox.Policy) {
				p.Dir = dir
				p.Read = []string{filepath.Join(dir, "tools", "bin")}
				p.Path += ":" + filepath.Join(dir, "tools", "bin")
			})
			others := func(p *sandbox.Policy) {
				p.Read = []string{filepath.Join(dir, "tools", "bin")}
				p.Write = []string{filepath.Join(dir, "tools")}
			}
			other := open(t, others)
			output, err := bash(t, own, "mv tools former && mkdir tools && ln -s "+secret+" tools/bin && echo replaced")
			require.NoError(t, err, output)
			for _, s := range []*sandbox.Enforcer{own, other} {
				output, err = bash(t, s, "cat "+dir+"/tools/bin/file")
				require.Error(t, err, output)
				require.NotContains(t, output, "secret\n")
			}
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "tools")))
			require.NoError(t, os.Symlink(secret, filepath.Join(dir, "tools")))
			output, err = bash(t, other, "cat "+dir+"/tools/file; echo attack > "+dir+"/tools/file")
			require.Error(t, err, output)
			// Nor what those may that are opened later, for example after a restart.
			require.NoError(t, os.Symlink(secret, filepath.Join(secret, "again")))
			for name, change := range map[string]func(p *sandbox.Policy){
				"read":   func(p *sandbox.Policy) { p.Read = []string{filepath.Join(dir, "tools")} },
				"below":  func(p *sandbox.Policy) { p.Read = []string{filepath.Join(dir, "tools/again")} },
				"write":  func(p *sandbox.Policy) { p.Write = []string{filepath.Join(dir, "tools")} },
				"path":   func(p *sandbox.Policy) { p.Path += ":" + filepath.Join(dir, "tools") },
				"second": func(p *sandbox.Policy) { p.Dir = t.TempDir(); p.Write = []string{dir, filepath.Join(dir, "tools")} },
			} {
				later := open(t, func(p *sandbox.Policy) { p.Dir = dir; change(p) })
				output, err = bash(t, later, "cat "+secret+"/file "+dir+"/tools/file; echo attack > "+secret+"/file")
				require.Error(t, err, name)
				require.NotContains(t, output, "secret\n", name)
				require.NotContains(t, strings.ReplaceAll(output, secret, ""), "secret", name)
			}
			content, err := os.ReadFile(filepath.Join(secret, "file"))
			require.NoError(t, err)
			require.Equal(t, "secret", string(content))
		})
	}
}

// The root as a path means the files of the system, not those of its processes and devices.
func TestRootIsPermitted(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			outside := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(outside, []byte("outside"), 0o600))
			read := open(t, func(p *sandbox.Policy) { p.Read = []string{"/"} })
			output, err := bash(t, read, "cat "+outside)
			require.NoError(t, err, output)
			require.Equal(t, "outside", output)
			output, err = bash(t, read, "echo attack > "+outside)
			require.Error(t, err, output)
			write := open(t, func(p *sandbox.Policy) { p.Write = []string{"//."} })
			output, err = bash(t, write, "echo -n written > "+outside)
			require.NoError(t, err, output)
			for _, s := range []*sandbox.Enforcer{read, write} {
				pid := strconv.Itoa(os.Getpid())
				for _, script := range []string{"cat /proc/" + pid + "/environ", ": >> /proc/sys/vm/swappiness", "ls /sys/kernel", ": < /dev/kmsg"} {
					output, err = bash(t, s, script)
					require.Error(t, err, script+output)
				}
			}
			content, err := os.ReadFile(outside)
			require.NoError(t, err)
			require.Equal(t, "written", string(content))
		})
	}
}

// A device is that of the system: a command of root owns it.
func TestDevicesCannotBeChanged(t *testing.T) {
	s := open(t, nil)
	for _, change := range []string{"chmod 666", "chown 0", "touch -c"} {
		output, err := bash(t, s, change+" /dev/null")
		require.Error(t, err, change)
		require.NotEmpty(t, output, change)
	}
	output, err := bash(t, s, "echo x > /dev/null && echo x >> /dev/null && head -c 1 /dev/zero | wc -c")
	require.NoError(t, err)
	require.Equal(t, "1\n", output)
}

// A program that may be read runs although it is in a directory on PATH that its user cannot enter,
// such as one of root.
func TestAProgramInAPrivateDirectoryOnPath(t *testing.T) {
	path := program(t)
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o700))
	s := open(t, func(p *sandbox.Policy) {
		p.Path = filepath.Dir(path) + ":" + p.Path
		p.Read = append(p.Read, path)
		if os.Getuid() == 0 {
			p.User, p.Nested, p.Network = 1900000123, true, sandbox.NetworkAll
		}
	})
	output, err := run(t, s, path, "-test.run=^$")
	require.NoError(t, err, output)
}
