package permission

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// gitConfig reads the configuration of git, in the environment that git has.
type gitConfig struct {
	home  string
	files []string // of the system and of the user, and the directory of the latter
}

func newGitConfig(env []string) gitConfig {
	vars := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	c := gitConfig{home: vars["HOME"]}
	c.files = []string{cmp.Or(vars["GIT_CONFIG_SYSTEM"], "/etc/gitconfig"), vars["GIT_CONFIG_GLOBAL"]}
	if user := vars["XDG_CONFIG_HOME"]; user != "" || c.home != "" {
		user = filepath.Join(cmp.Or(user, c.home+"/.config"), "git")
		c.files = append(c.files, user, filepath.Join(user, "config"))
	}
	if c.home != "" {
		c.files = append(c.files, filepath.Join(c.home, ".gitconfig"))
	}
	return c
}

// paths returns the files and directories that decide which programs git executes in a worktree:
// the configuration of the system, of the user and of the repository, the files that a
// configuration includes, the files that it names as programs, and the directory of its hooks.
func (c gitConfig) paths(worktree, repository string) []string {
	s := gitSearch{home: c.home, worktree: worktree, seen: map[string]bool{}}
	for _, file := range c.files {
		s.read(file)
	}
	if repository != "" {
		common := relativeTo(repository, strings.TrimSpace(readStart(filepath.Join(repository, "commondir")))) // of a linked worktree
		s.read(filepath.Join(repository, "config.worktree"))
		s.read(filepath.Join(common, "config"))
	}
	return s.found
}

// gitSearch reads configuration files of git.
type gitSearch struct {
	home, worktree string
	found          []string // the result
	seen           map[string]bool
}

// read adds a configuration file and the files that it names. A value may be a command line, and
// git starts programs in the worktree. The result may contain files that are not executed.
func (s *gitSearch) read(file string) {
	if file == "" || !s.take(file) {
		return
	}
	text := readStart(file)
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		key, value, _ := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		names := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t\r\n\"';#!", c) })
		if all := strings.Trim(value, " \t\r\n\"\\"); len(names) > 1 {
			names = append(names, all)
		}
		for _, name := range names {
			if rest, ok := strings.CutPrefix(name, "~/"); ok {
				name = filepath.Join(s.home, rest)
			}
			for _, base := range []string{filepath.Dir(file), s.worktree} {
				s.add(key, relativeTo(base, name))
			}
		}
	}
}

// add adds the path in a value, if it is that of a file, of an included configuration, which need
// not exist yet, or of the directory of hooks.
func (s *gitSearch) add(key, path string) {
	if strings.HasSuffix(key, "path") {
		s.read(path)
	} else if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		s.take(path)
	}
}

// take adds a path to the result. It reports whether the path is new.
func (s *gitSearch) take(path string) bool {
	if s.seen[path] {
		return false
	}
	s.seen[path] = true
	s.found = append(s.found, path)
	return true
}

// gitDirectory returns the git directory of a worktree, or "".
func gitDirectory(worktree string) string {
	name := filepath.Join(worktree, ".git")
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return name
	}
	return gitFile(worktree)
}

// gitFile returns the directory that the file .git in a directory names, or "".
func gitFile(dir string) string {
	text := readStart(filepath.Join(dir, ".git"))
	to, ok := strings.CutPrefix(text, "gitdir:")
	if to = strings.TrimSpace(to); !ok || to == "" {
		return ""
	}
	return relativeTo(dir, to)
}

func relativeTo(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readStart returns the first MiB of a regular file, or "".
func readStart(name string) string {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	data, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(data)
}
