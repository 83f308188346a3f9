package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/sandbox"
)

const (
	gitTimeout   = 5 * time.Second
	maxGitOutput = 64 << 10 // bytes
)

// repository returns the directory of the repository to which the working directory belongs as a
// worktree or a submodule, or "". Its files could name any repository of the user, and commands can
// change them: it is the repository that must name the working directory. Git reads both, in a
// sandbox without writable files and without a network.
func (o *Opener) repository(env []string) string {
	cwd, err := filepath.EvalSymlinks(o.cfg.CWD)
	if err != nil {
		return ""
	}

	if info, err := os.Lstat(filepath.Join(cwd, ".git")); err != nil || !info.Mode().IsRegular() {
		return ""
	}

	git, end := o.openGit(env)
	if git == nil {
		return ""
	}

	defer end()
	dir, ok := git("-C", cwd, "rev-parse", "--path-format=absolute", "--git-common-dir")
	dir, err = filepath.EvalSymlinks(strings.TrimSuffix(dir, "\n"))
	if !ok || err != nil || !filepath.IsAbs(dir) {
		return ""
	}

	worktrees, _ := git("--git-dir", dir, "worktree", "list", "--porcelain", "-z")
	if slices.Contains(strings.Split(worktrees, "\x00"), "worktree "+cwd) {
		return dir
	}

	work, ok := git("--git-dir", dir, "config", "--get", "core.worktree")
	work = strings.TrimSuffix(work, "\n")
	if !filepath.IsAbs(work) {
		work = filepath.Join(dir, work)
	}

	if work, err = filepath.EvalSymlinks(work); ok && err == nil && work == cwd {
		return dir
	}

	return ""
}

// openGit returns a function that runs git in a sandbox, and returns its output and whether it
// succeeded, and one that closes the sandbox. Both are nil if git cannot be confined.
func (o *Opener) openGit(env []string) (func(args ...string) (string, bool), func()) {
	var dirs []string
	deleteAll := func() {
		for _, dir := range dirs {
			o.dirs.Delete(dir)
		}
	}
	for range 2 {
		dir, err := o.dirs.Create()
		if err != nil {
			deleteAll()
			return nil, nil
		}

		dirs = append(dirs, dir)
	}

	s, err := sandbox.New(sandbox.Policy{Dir: dirs[0], Private: dirs[1], Read: []string{"/"}, Path: path(env), Network: sandbox.NetworkNone})
	if err != nil || !s.Support().Files {
		deleteAll()
		return nil, nil
	}

	run := func(args ...string) (string, bool) {
		output := new(bounded)
		cmd := &exec.Cmd{
			Path: "/usr/bin/env", Args: append([]string{"env", "git"}, args...), Stdout: output,
			Env: []string{"PATH=" + path(env), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C"},
		}
		c, err := s.Confine(cmd)
		if err != nil {
			return "", false
		}

		p, err := child.Start(cmd)
		c.Started()
		if err != nil {
			return "", false
		}

		timer := time.AfterFunc(gitTimeout, p.Kill)
		defer timer.Stop()
		<-p.Done()
		return output.text.String(), p.Err() == nil
	}
	return run, func() { s.Close(); deleteAll() }
}

// bounded stores the beginning of what is written.
type bounded struct{ text strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	b.text.Write(p[:min(len(p), maxGitOutput-b.text.Len())])
	return len(p), nil
}
