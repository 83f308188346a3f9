package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/skill"
)

// explain says what is wrong with a path, and what to do about it. It tells nothing of what is outside dir.
func explain(dir *filesafe.Dir, path string, err error) error {
	name := shown(path)
	switch {
	case errors.Is(err, filesafe.ErrOutside):
		return fmt.Errorf("%s is outside the working directory %s: give a path below it", name, shown(dir.Path()))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: find the right path with Glob", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the file permissions do not allow it", name)
	case errors.Is(err, fs.ErrInvalid):
		return errors.New("the path has a null byte in it")
	case errors.Is(err, filesafe.ErrNotDirectory), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s, or a part of it, is used as a directory and is none", name)
	case errors.Is(err, filesafe.ErrNotFile):
		if info, err := dir.Stat(path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory: list it with Glob", name)
		}
		return fmt.Errorf("%s is not a regular file", name)
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok { // its path may be another than the model gave
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// A skillDir is where Read may go outside the working directory.
type skillDir struct {
	met    string // as the skill tells it
	pinned string // free of links
}

// skillDirs are the directories of the user's skills. Those of a project are read as files of the working directory: they
// may have come from anybody, and a link in them must not become a way out. The same holds for all below it.
func skillDirs(dir *filesafe.Dir, skills []skill.Skill) []skillDir {
	var dirs []skillDir
	for _, s := range skills {
		if s.Source != skill.User {
			continue
		}
		met := filepath.Clean(s.Dir())
		pinned, err := filepath.EvalSymlinks(met)
		if err != nil || below(dir.Path(), met) || below(dir.Path(), pinned) {
			continue
		}
		dirs = append(dirs, skillDir{met, pinned})
	}
	return dirs
}

// below says whether an absolute path is dir or begins with it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// openForRead opens a file of the working directory or of a skill. The error explains itself.
func openForRead(dir *filesafe.Dir, skills []skillDir, path string) (*os.File, error) {
	f, err := dir.Open(path)
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, filesafe.ErrOutside) || !filepath.IsAbs(path) {
		return nil, explain(dir, path, err)
	}
	for _, s := range skills {
		if !below(s.met, path) && !below(s.pinned, path) {
			continue
		}
		if f, err := s.open(path); err == nil || !errors.Is(err, filesafe.ErrOutside) {
			return f, err
		}
	}
	return nil, explain(dir, path, err)
}

// open opens a file below the directory, which must be the one it was at the start.
func (s skillDir) open(path string) (*os.File, error) {
	dir, err := filesafe.Open(s.pinned)
	if err != nil {
		return nil, fmt.Errorf("%s does not exist: the skill's directory is gone", shown(path))
	}
	defer func() { _ = dir.Close() }() // an open file stays open
	if dir.Path() != s.pinned {
		return nil, filesafe.ErrOutside
	}
	f, err := dir.Open(path)
	if err != nil && !errors.Is(err, filesafe.ErrOutside) {
		err = explain(dir, path, err)
	}
	return f, err
}
