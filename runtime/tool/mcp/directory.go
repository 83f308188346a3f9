package mcp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
