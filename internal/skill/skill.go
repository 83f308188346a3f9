package skill

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// MaxBytes bounds the SKILL.md that [Skill.Body] reads.
const MaxBytes = 1 << 20

// Skill is one SKILL.md.
type Skill struct {
	Name        string // not empty, one line; that of the directory if the file has none
	Description string // can be empty, and can have several lines
	Source      string // User or Project
	Hidden      bool   // it is not listed for the model, which can load it by its name
	Location    string // absolute path of the SKILL.md; links are not resolved

	sum    [sha256.Size]byte // of the beginning of the file
	within string            // directory that Location must lead into, without links; "" is any
}

// Dir returns the skill's directory. Paths in its body are relative to it.
func (s Skill) Dir() string { return filepath.Dir(s.Location) }

// Body reads the current SKILL.md and returns it without frontmatter, as valid UTF-8.
func (s Skill) Body() (string, error) {
	return s.CheckedBody(func(string) error { return nil })
}

// CheckedBody is like Body, for a caller that decides which files may be read: it calls check with
// the path that Location leads to, without links, and returns its error.
func (s Skill) CheckedBody(check func(path string) error) (string, error) {
	data, err := s.read(check)
	if err != nil {
		return "", fmt.Errorf("read skill %s: %w", s.Name, err)
	}

	doc, _ := Parse(data) // the scan logged the error
	return doc.Body, nil
}

func (s Skill) read(check func(path string) error) ([]byte, error) {
	target, err := filepath.EvalSymlinks(s.Location)
	if err != nil {
		return nil, err
	}

	if err := check(target); err != nil {
		return nil, err
	}

	var guard *os.Root
	if s.within != "" {
		if guard, err = os.OpenRoot(s.within); err != nil {
			return nil, err
		}

		defer func() { _ = guard.Close() }()
	}

	f, _, err := open(guard, s.within, target)
	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		err = fmt.Errorf("it is longer than %d bytes", MaxBytes)
	}

	return data, err
}

// open opens a regular file by its resolved path, which may have changed since. With a guard, it
// does not open a path that now leads outside. O_NONBLOCK is for a path that is now a FIFO. Devices
// are not opened.
func open(guard *os.Root, within, path string) (*os.File, int64, error) {
	lstat, openFile := os.Lstat, os.OpenFile
	if guard != nil {
		rel, err := filepath.Rel(within, path)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, 0, errOutside
		}

		path, lstat, openFile = rel, guard.Lstat, guard.OpenFile
	}

	info, err := lstat(path)
	if err != nil {
		return nil, 0, err
	}

	if !info.Mode().IsRegular() {
		return nil, 0, errNoFile
	}

	f, err := openFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}

	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}

	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}

	return f, info.Size(), nil
}

var errNoDescription = errors.New("the description is missing")

// Corrections for the author of a SKILL.md.
const (
	hintFrontmatter = "begin the file with a line ---, lines for name: and description:, and another line ---"
	hintYAML        = `quote a value that contains ": ", quotes or brackets`
	hintDescription = "describe in description the purpose of the skill and when to use it: the model chooses by it"
)
