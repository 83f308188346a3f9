package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// maxTail bounds the part of a log that Logs reads, in bytes.
const maxTail = 2 << 20

// Logs returns the last lines of the log of a revision.
func (d *Driver) Logs(_ context.Context, ref deploy.Ref, number int64, tail int) ([]string, error) {
	f, err := d.folder(ref)
	if err != nil {
		return nil, err
	}

	r := f.revision(number)
	var text []byte
	for _, name := range []string{logFile, olderLog} {
		part, err := readEnd(r.path(name), maxTail-int64(len(text)))
		if err != nil {
			return nil, clean("read log", err)
		}

		text = append(part, text...)
		if bytes.Count(text, []byte("\n")) > tail || len(text) >= maxTail {
			break
		}
	}

	lines := strings.Split(strings.TrimSuffix(strings.ToValidUTF8(string(text), "\uFFFD"), "\n"), "\n")
	if len(text) == 0 {
		return nil, nil
	}

	return lines[max(len(lines)-tail, 0):], nil
}

// readEnd returns at most the last n bytes of a file, which may not exist.
func readEnd(path string, n int64) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }() // it was opened for reading
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}

	return io.ReadAll(io.NewSectionReader(f, max(info.Size()-n, 0), n))
}

// rotate moves the content of a log that is too large to the older part, unless another call has
// the deployment: a later one does it then. The runtime has the file open for appending, so the
// file remains. Lines that it writes at that moment may be lost.
func (d *Driver) rotate(r revision) {
	if !r.isLogFull(d.cfg.MaxLog) {
		return
	}

	l, err := tryLock(filepath.Join(d.cfg.Dir, lockDir, filepath.Base(r.of.dir)))
	if err != nil || l == nil {
		return
	}

	defer l.unlock()
	if !r.isLogFull(d.cfg.MaxLog) { // another hub has moved it
		return
	}

	if text, err := readEnd(r.path(logFile), d.cfg.MaxLog); err == nil {
		_ = r.write(olderLog, text) // on a full disk, the older part is lost
	}

	_ = os.Truncate(r.path(logFile), 0)
}

func (r revision) isLogFull(most int64) bool {
	info, err := os.Lstat(r.path(logFile))
	return err == nil && info.Mode().IsRegular() && info.Size() >= most
}
