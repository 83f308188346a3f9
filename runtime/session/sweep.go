package session

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	// sweepInterval is the time between two sweeps, and sweepAgain that after one that has reached
	// maxRemovals. Checking a file takes about 1.5 us, and removing one 150 us, which the start or the
	// opening of a session waits for.
	sweepInterval = time.Hour
	sweepAgain    = time.Minute
	maxRemovals   = 500 // and attempts to remove
)

// sweep removes expired files if that is due. It returns immediately if another goroutine is
// sweeping.
func (f *Files) sweep() {
	if !f.sweepMu.TryLock() {
		return
	}
	defer f.sweepMu.Unlock()
	if time.Now().Before(f.nextSweep) {
		return
	}
	f.nextSweep = time.Now().Add(min(f.cfg.TTL, sweepInterval))
	agents, err := f.agents()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.cfg.Logger.Warn("cannot list the agents of transcripts", "err", err)
	}
	attempts := 0
	for _, agent := range agents {
		entries, err := fs.ReadDir(f.root.FS(), path.Join(f.base, agent))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.cfg.Logger.Warn("cannot list expired transcripts", "agent", agent, "err", err)
		}
		for _, e := range entries {
			if !f.sweepEntry(agent, e) {
				continue
			}
			if attempts++; attempts == maxRemovals {
				f.nextSweep = time.Now().Add(sweepAgain)
				return
			}
		}
	}
}

// agents returns the agents that have a directory. Symbolic links are ignored.
func (f *Files) agents() ([]string, error) {
	entries, err := fs.ReadDir(f.root.FS(), f.base)
	var names []string
	for _, e := range entries {
		if e.IsDir() && validAgent(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// sweepEntry removes an expired file unless it is in use. It reports whether it
// tried to, which may have failed.
func (f *Files) sweepEntry(agent string, e fs.DirEntry) bool {
	id, isTranscript := strings.CutSuffix(e.Name(), extension)
	isTemporary := false
	if !isTranscript {
		id, isTemporary = strings.CutSuffix(e.Name(), newExtension)
	}
	if !isTranscript && !isTemporary || !validFile(id) || !e.Type().IsRegular() {
		return false
	}
	info, err := e.Info()
	if err != nil || !f.expired(info) { // an error means that another process has removed the file
		return false
	}
	if isTemporary { // left by a crash: no compaction takes as long as the TTL
		err := f.root.Remove(filepath.Join(f.base, agent, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.cfg.Logger.Warn("cannot remove the file of an interrupted compaction", "session_id", id, "agent", agent, "err", err)
		}
		return true
	}
	k := key{agent, id}
	if !f.acquire(k) {
		return false
	}
	defer f.release(k)
	err = f.removeExpired(k)
	if errors.Is(err, ErrBusy) {
		return false
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.cfg.Logger.Warn("cannot remove an expired transcript", "session_id", id, "agent", agent, "err", err)
	}
	return true
}

// removeExpired locks a transcript and removes it if it is still expired.
func (f *Files) removeExpired(k key) error {
	file, info, err := f.openLocked(f.path(k))
	if err != nil {
		return err
	}
	if f.expired(info) {
		err = f.root.Remove(f.path(k))
	}
	return errors.Join(err, unlockAndClose(file))
}
