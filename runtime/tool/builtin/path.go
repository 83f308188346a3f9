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

// pathError returns the error of a file operation for the model. It reveals nothing about files
// outside dir.
func pathError(dir *filesafe.Dir, path string, err error) error {
	name := display(path)
	switch {
	case errors.Is(err, filesafe.ErrOutside):
		return fmt.Errorf("%s is outside the working directory %s: use a path in it", name, display(dir.Path()))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: use Glob to find the path", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the file permissions do not allow this", name)
	case errors.Is(err, fs.ErrInvalid):
		return errors.New("the path contains a null byte")
	case errors.Is(err, filesafe.ErrNotDirectory), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s or a part of it is not a directory", name)
	case errors.Is(err, filesafe.ErrNotFile):
		if info, err := dir.Stat(path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory: use Glob to list it", name)
		}
		return fmt.Errorf("%s is not a regular file", name)
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok { // without its path, which may differ
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// skillDir is a directory outside the working directory that Read may access.
type skillDir struct {
	path string // of the skill
	real string // without links
}

// skillDirs returns the directories of the user's skills that are outside the working directory.
// The skills of a project are read as files of the working directory: their source is not trusted,
// and links in them must not lead outside.
func skillDirs(dir *filesafe.Dir, skills []skill.Skill) []skillDir {
	var dirs []skillDir
	for _, s := range skills {
		if s.Source != skill.User {
			continue
		}
		path := filepath.Clean(s.Dir())
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil || below(dir.Path(), path) || below(dir.Path(), resolved) {
			continue
		}
		dirs = append(dirs, skillDir{path, resolved})
	}
	return dirs
}

// below reports whether an absolute path is dir or in it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// openForRead opens a file of the working directory or of a skill. Its error is for the model.
func openForRead(dir *filesafe.Dir, skills []skillDir, path string) (*os.File, error) {
	f, err := dir.Open(path)
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, filesafe.ErrOutside) || !filepath.IsAbs(path) {
		return nil, pathError(dir, path, err)
	}
	for _, s := range skills {
		if !below(s.path, path) && !below(s.real, path) {
			continue
		}
		if f, err := s.open(path); err == nil || !errors.Is(err, filesafe.ErrOutside) {
			return f, err
		}
	}
	return nil, pathError(dir, path, err)
}

// open opens a file below the directory, which must not have been replaced since the start.
func (s skillDir) open(path string) (*os.File, error) {
	dir, err := filesafe.Open(s.real)
	if err != nil {
		return nil, fmt.Errorf("%s does not exist: the directory of the skill was removed", display(path))
	}
	defer func() { _ = dir.Close() }() // the file stays open
	if dir.Path() != s.real {
		return nil, filesafe.ErrOutside
	}
	f, err := dir.Open(path)
	if err != nil && !errors.Is(err, filesafe.ErrOutside) {
		err = pathError(dir, path, err)
	}
	return f, err
}
