package permission

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// GitPaths returns files and directories for [Config.Protected]: those that decide which programs
// git executes in a directory, but have names that a policy does not recognize. They are the
// configuration of the user, the files that a configuration includes, the files that it names as
// programs, and the directory of its hooks. The environment is that of git, as "NAME=value".
func GitPaths(dir string, env []string) []string {
	vars := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	s := gitSearch{home: vars["HOME"]}
	files := []string{vars["GIT_CONFIG_GLOBAL"]}
	if user := vars["XDG_CONFIG_HOME"]; user != "" || s.home != "" {
		user = filepath.Join(cmp.Or(user, s.home+"/.config"), "git")
		s.paths = append(s.paths, user)
		files = append(files, filepath.Join(user, "config"))
	}
	if s.home != "" {
		files = append(files, filepath.Join(s.home, ".gitconfig"))
	}
	for s.worktree = dir; ; s.worktree = filepath.Dir(s.worktree) {
		if git := gitDirectory(s.worktree); git != "" {
			common := relativeTo(git, strings.TrimSpace(readStart(filepath.Join(git, "commondir")))) // of a linked worktree
			files = append(files, filepath.Join(git, "config.worktree"), filepath.Join(common, "config"))
			break
		}
		if s.worktree == filepath.Dir(s.worktree) {
			break
		}
	}
	for _, file := range files {
		s.read(file)
	}
	return s.paths
}

// gitSearch reads configuration files of git.
type gitSearch struct {
	home, worktree string
	paths          []string // the result
}

// read adds a configuration file and the files that it names. A value may be a command line, and git
// starts programs in the worktree. The result may contain files that are not executed.
func (s *gitSearch) read(file string) {
	if file == "" || slices.Contains(s.paths, file) {
		return
	}
	s.paths = append(s.paths, file)
	text := readStart(file)
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		key, value, _ := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		names := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t\r\n\"';!", c) })
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

// add adds the path in a value, if it is that of a file, of an included configuration, which need not
// exist yet, or of the directory of hooks.
func (s *gitSearch) add(key, path string) {
	if strings.HasSuffix(key, "path") {
		s.read(path)
	} else if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !slices.Contains(s.paths, path) {
		s.paths = append(s.paths, path)
	}
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
