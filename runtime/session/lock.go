package session

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/internal/filelock"
)

// acquire marks a session as in use. It returns false if it already is.
func (f *Files) acquire(k key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, busy := f.inUse[k]; busy {
		return false
	}

	f.inUse[k] = struct{}{}
	return true
}

func (f *Files) release(k key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inUse, k)
}

// resume opens a stored session. It returns fs.ErrNotExist if the session is unknown or expired.
func (f *Files) resume(k key) (_ *transcript, err error) {
	if !f.acquire(k) {
		return nil, ErrBusy
	}

	defer func() {
		if err != nil {
			f.release(k)
		}
	}()
	var path string
	var file *os.File
	var info fs.FileInfo
	for _, path = range f.paths(k) {
		if file, info, err = f.openLocked(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}

	if err != nil {
		return nil, err
	}

	defer func() {
		if err != nil {
			_ = unlockAndClose(file) // nothing was written
		}
	}()
	if f.expired(info) { // the session is unknown even if its file cannot be removed
		return nil, errors.Join(f.root.Remove(path), fs.ErrNotExist)
	}

	compaction, err := findCompaction(io.NewSectionReader(file, 0, info.Size()), info.Size())
	if err != nil {
		return nil, err
	}

	c, err := readTranscript(io.NewSectionReader(file, 0, info.Size()), info.Size(), compaction)
	if err != nil {
		return nil, err
	}

	// The header identifies the session: two names can be equivalent in a file system, and a link
	// in the directory of one agent can lead to the directory of another.
	if len(c.messages) == 0 || c.header.ID != k.id || c.header.Agent != k.agent {
		return nil, fs.ErrNotExist
	}

	if c.end < info.Size() {
		f.cfg.Logger.Warn("transcript ends in an interrupted append, which will be cut off",
			"session_id", k.id, "agent", k.agent, "bytes", info.Size()-c.end)
	}

	return &transcript{
		store: f, key: k, path: path, resumed: true, messages: c.messages, waiting: c.waiting, header: c.header, former: c.header.Version < formatVersion,
		entries: c.entries, events: c.events, file: file, size: info.Size(), end: c.end, missingNewline: c.missingNewline,
	}, nil
}

// createFile creates the file of a session, and its folder if that does not exist.
func (f *Files) createFile(path string) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL | openFlags
	file, err := f.root.OpenFile(path, flags, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}

	if err := f.makeFolder(path); err != nil {
		return nil, err
	}

	return f.root.OpenFile(path, flags, 0o600)
}

// makeFolder creates the folder of a file if it does not exist.
func (f *Files) makeFolder(path string) error { return f.root.MkdirAll(filepath.Dir(path), 0o700) }

// openLocked opens and locks the file of a session. The caller must call unlockAndClose.
func (f *Files) openLocked(path string) (*os.File, fs.FileInfo, error) {
	file, err := f.root.OpenFile(path, os.O_RDWR|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}

	info, err := f.lockAndVerify(file, path)
	if err != nil {
		_ = unlockAndClose(file) // nothing was written
		return nil, nil, err
	}

	return file, info, nil
}

// lockAndVerify locks an open file and verifies that path is still this regular file. Between the
// open and the lock, a sweep can have removed it, or a run can have replaced it. The check also
// rejects symbolic links.
func (f *Files) lockAndVerify(file *os.File, path string) (fs.FileInfo, error) {
	if err := lock(file); err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err != nil {
		return nil, err
	}

	current, err := f.root.Lstat(path)
	if err != nil {
		return nil, err
	}

	if !current.Mode().IsRegular() || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file", errDamaged)
	}

	if !os.SameFile(info, current) { // the run that has compacted the session may still be active
		return nil, ErrBusy
	}

	return info, nil
}

const openFlags = filelock.OpenFlags

// lock returns ErrBusy if another open file, of this or another process, has the lock.
func lock(file *os.File) error {
	err := filelock.Lock(file)
	if errors.Is(err, filelock.ErrLocked) {
		return ErrBusy
	}

	return err
}

// unlockAndClose unlocks a file before it closes it: a child process that is being started shares
// the lock until its exec, and close would not release it.
func unlockAndClose(file *os.File) error { return errors.Join(filelock.Unlock(file), file.Close()) }
