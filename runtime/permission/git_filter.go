package permission

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

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
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return string(data), err
}

func relativeTo(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

const maxConfig = 1 << 20 // bytes
