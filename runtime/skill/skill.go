package skill

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// MaxBytes bounds the SKILL.md that [Skill.Body] reads.
const MaxBytes = 1 << 20

// Skill is one SKILL.md that was found.
type Skill struct {
	Name        string // never empty, on one line; that of the directory if the file has none
	Description string // may be empty, and may have several lines
	Source      string // User or Project
	Location    string // absolute path of the SKILL.md, as it was met: links in it are not resolved

	within string // where Location must lead, free of links; "" is anywhere
}

// Dir is the skill's directory, to which paths in its body are relative.
func (s Skill) Dir() string { return filepath.Dir(s.Location) }

// Body reads the SKILL.md, as it is now, without its frontmatter. It is valid UTF-8.
func (s Skill) Body() (string, error) {
	data, err := s.read()
	if err != nil {
		return "", fmt.Errorf("read skill %s: %w", s.Name, err)
	}
	doc, _ := Parse(data) // the log of the scan has the error
	return doc.Body, nil
}

func (s Skill) read() ([]byte, error) {
	target, err := filepath.EvalSymlinks(s.Location)
	if err != nil {
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

// open opens the regular file at path, which was free of links a moment ago. With a guard it stays closed if it has come
// to lie outside since. O_NONBLOCK is for a FIFO that has come to stand there; a device is not opened at all.
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
