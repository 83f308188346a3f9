package permission

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
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
	hooks := ""
	for _, file := range c.files {
		s.read(file)
	}
	if repository != "" {
		common := relativeTo(repository, strings.TrimSpace(readStart(filepath.Join(repository, "commondir")))) // of a linked worktree
		s.read(filepath.Join(repository, "config.worktree"))
		s.read(filepath.Join(common, "config"))
		hooks = filepath.Join(common, "hooks")
	}
	for _, dir := range append(s.hooks, hooks) {
		s.scripts(dir)
	}
	if len(s.seen) > maxLookups {
		return []string{worktree}
	}
	return s.found
}

// The search examines at most so many paths and hooks in one worktree. A worktree with more paths
// is protected as a whole.
const (
	maxLookups = 20_000
	maxHooks   = 64
)

// gitSearch reads configuration files of git, and hooks.
type gitSearch struct {
	home, worktree string
	found          []string // the result
	hooks          []string // directories of hooks that a configuration names
	seen           map[string]bool
}

// read adds a configuration file and the files that it names. A value may be a command line, and
// git starts programs in the worktree. The result may contain files that are not executed.
func (s *gitSearch) read(file string) {
	if file == "" || !s.visit(file) {
		return
	}
	s.found = append(s.found, file)
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
				if base == s.worktree || !strings.HasSuffix(key, "hookspath") { // relative to where hooks run
					s.add(key, relativeTo(base, name))
				}
			}
		}
	}
}

// add adds the path in a value, if it is that of a file, of an included configuration, which need
// not exist yet, or of the directory of hooks. Managers of hooks keep their files in the parent of
// that directory.
func (s *gitSearch) add(key, path string) {
	if strings.HasSuffix(key, "hookspath") && !s.seen[path] {
		s.hooks = append(s.hooks, path)
		if parent := filepath.Dir(path); strings.HasPrefix(parent, s.worktree+string(filepath.Separator)) {
			s.hooks = append(s.hooks, parent)
			s.found = append(s.found, parent)
		}
	}
	if strings.HasSuffix(key, "path") {
		s.read(path)
	} else if s.visit(path) && isRegular(path) {
		s.found = append(s.found, path)
	}
}

// scripts adds the files that the hooks in a directory name. A path of a file that does not exist
// is added, too.
func (s *gitSearch) scripts(dir string) {
	entries, _ := os.ReadDir(dir) // it need not exist
	for _, e := range entries[:min(len(entries), maxHooks)] {
		text := readStart(filepath.Join(dir, e.Name()))
		if strings.HasSuffix(e.Name(), ".sample") || strings.Contains(text, "\x00") {
			continue
		}
		for name := range strings.FieldsFuncSeq(text, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("\"'`;&|<>(){}$%*=,", c) }) {
			for _, path := range []string{filepath.Join(s.worktree, name), filepath.Join(dir, name), name} {
				if !filepath.IsAbs(path) || !s.visit(path) {
					continue
				}
				_, err := os.Lstat(path)
				if isRegular(path) || errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "/") {
					s.found = append(s.found, path)
				}
			}
		}
	}
}

// visit reports whether a path is new, and the limit is not reached.
func (s *gitSearch) visit(path string) bool {
	if s.seen[path] || len(s.seen) > maxLookups {
		return false
	}
	s.seen[path] = true
	return true
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// mayFilter reports whether the configuration of a repository that contains the working directory,
// wherever git finds it, may name a filter or another worktree. git status and git diff execute
// filters and read the files of that worktree, and no option disables either. A configuration that
// includes others counts, and so does one that cannot be read.
func (d *directory) mayFilter() bool {
	if d.cwd == "" {
		return false
	}
	dir, err := filepath.EvalSymlinks(d.absolute("."))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	for ; ; dir = filepath.Dir(dir) {
		repositories := []string{dir, filepath.Join(dir, ".git")}
		text, err := readWhole(filepath.Join(dir, ".git"))
		to, ok := strings.CutPrefix(text, "gitdir: ")
		switch {
		case err != nil, !ok && text != "":
			return true
		case ok:
			repositories = append(repositories, relativeTo(dir, strings.TrimRight(to, "\r\n")))
		}
		for _, repository := range repositories {
			if repositoryMayFilter(repository) {
				return true
			}
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

func repositoryMayFilter(repository string) bool {
	common, err := readWhole(filepath.Join(repository, "commondir"))
	if err != nil {
		return true
	}
	for _, dir := range []string{repository, relativeTo(repository, strings.TrimRight(common, "\r\n"))} {
		for _, name := range []string{"config", "config.worktree"} {
			text, err := readWhole(filepath.Join(dir, name))
			text = strings.ToLower(text)
			for _, word := range []string{"[filter", "[include", "worktree"} {
				if err != nil || strings.Contains(text, word) {
					return true
				}
			}
		}
	}
	return false
}

// readWhole returns the content of a file of at most 1 MiB, or "" if there is no regular file.
func readWhole(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && info.IsDir():
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxConfig:
		return "", errors.New("not a regular file of at most 1 MiB")
	}
	return readStart(name), nil
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

const maxConfig = 1 << 20 // bytes

// readStart returns the first MiB of a regular file, or "".
func readStart(name string) string {
	if !isRegular(name) {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	data, _ := io.ReadAll(io.LimitReader(f, maxConfig))
	return string(data)
}
