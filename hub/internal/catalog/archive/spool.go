package archive

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/skillzip"
)

// file is a file whose content is in the spool.
type file struct {
	name       string
	at, size   int64
	executable bool
	link       bool // it has no content
}

// spool is a temporary file with the contents of all files.
type spool struct {
	file   *os.File
	size   int64
	files  []file
	reader skillzip.Reader

	buffer []byte // of copies
}

// newSpool returns a spool for an upload of that size.
func newSpool(dir string, packed int64) (*spool, error) {
	f, err := os.CreateTemp(dir, "skill-*")
	if err != nil {
		return nil, fmt.Errorf("make spool: %w", err)
	}

	if runtime.GOOS != "windows" { // a killed process leaves no file
		_ = os.Remove(f.Name()) // close removes it otherwise
	}

	s := &spool{file: f, buffer: make([]byte, 32<<10)}
	s.reader = skillzip.Reader{Limit: min(skillzip.MaxUnpacked, freeSize+maxRatio*packed), Visit: s.add}
	return s, nil
}

// close deletes the file.
func (s *spool) close() error {
	err := s.file.Close()
	if runtime.GOOS == "windows" {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}

	return err
}

// add adds an entry.
func (s *spool) add(e skillzip.Member) error {
	if e.Name == "" || e.Dir || skillzip.IsForeign(e.Name) {
		return nil
	}

	var n int64
	if !e.Link {
		var err error
		if n, err = io.CopyBuffer(onlyWriter{s.file}, e.Content, s.buffer); err != nil {
			return err
		}
	}

	s.files = append(s.files, file{name: e.Name, at: s.size, size: n, executable: e.Executable, link: e.Link})
	s.size += n
	return nil
}

// onlyWriter hides ReadFrom, which would not use the buffer.
type onlyWriter struct{ io.Writer }

// open returns the content of a file.
func (s *spool) open(f file) *io.SectionReader { return io.NewSectionReader(s.file, f.at, f.size) }

// epoch is the time of all files: the first that a zip can represent.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// write writes the files as a zip, sorted by name.
func (s *spool) write(out io.Writer) error {
	slices.SortFunc(s.files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	w := zip.NewWriter(out)
	for _, f := range s.files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(0o644)
		if f.executable {
			header.SetMode(0o755)
		}

		entry, err := w.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("write zip: %w", err)
		}

		if _, err := io.CopyBuffer(entry, s.open(f), s.buffer); err != nil {
			return fmt.Errorf("write zip: %w", err)
		}
	}

	if err := w.Close(); err != nil {
		return fmt.Errorf("write zip: %w", err)
	}

	return nil
}
