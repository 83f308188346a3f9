package session

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// The budget of one sweep. Checking a file costs 1 and takes about 1.5 us, so that a start is
	// delayed by a few milliseconds and the opening of a session hardly at all.
	budgetAtStart = 1000
	budgetAtOpen  = 64

	// removalCost is the additional cost of removing a file, which takes about 150 us.
	removalCost = 20

	// passInterval is the time between two passes over all files.
	passInterval = time.Hour

	// batchSize is the number of directory entries that are read at a time.
	batchSize = 64
)

// pass is the progress of a pass over all files of a store.
type pass struct {
	started bool
	agents  []string // agents whose directories have not been opened yet
	agent   string   // the agent of dir
	dir     *os.File // the current directory, nil between two agents
	entries []fs.DirEntry
	next    time.Time // earliest start
}

// sweep removes expired files until the budget is used. It continues the current pass, or starts
// the next one when it is due. It returns immediately if another goroutine is sweeping.
func (f *Files) sweep(budget int) {
	if !f.sweepMu.TryLock() {
		return
	}
	defer f.sweepMu.Unlock()
	p := &f.pass
	if !p.started && time.Now().Before(p.next) {
		return
	}
	for ; budget > 0; budget-- {
		if len(p.entries) > 0 {
			if f.sweepEntry(p.agent, p.entries[0]) {
				budget -= removalCost
			}
			p.entries = p.entries[1:]
			continue
		}
		err := f.readEntries()
		if errors.Is(err, io.EOF) {
			*p = pass{next: time.Now().Add(min(f.cfg.TTL, passInterval))}
			return
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.cfg.Logger.Warn("cannot list expired transcripts", "agent", p.agent, "err", err)
		}
	}
}

// readEntries reads the next entries of the pass, which are of one agent's directory. It returns
// io.EOF after the last directory. After any other error the pass continues with the next one.
func (f *Files) readEntries() (err error) {
	p := &f.pass
	if !p.started {
		p.started = true
		p.agents, err = f.agents()
		return err
	}
	if p.dir == nil {
		if len(p.agents) == 0 {
			return io.EOF
		}
		p.agent, p.agents = p.agents[0], p.agents[1:]
		p.dir, err = f.root.Open(filepath.Join(f.base, p.agent))
		return err
	}
	p.entries, err = p.dir.ReadDir(batchSize)
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, p.dir.Close())
	p.dir = nil
	return err
}

// agents returns the agents that have a directory. Symbolic links are ignored.
func (f *Files) agents() ([]string, error) {
	dir, err := f.root.Open(f.base)
	if err != nil {
		return nil, err
	}
	entries, err := dir.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.IsDir() && validAgent(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, errors.Join(err, dir.Close())
}

// sweepEntry removes an expired file unless it is in use. It reports whether a removal was
// attempted.
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
	if err := f.removeExpired(k); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, fs.ErrNotExist) {
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

// close releases the open directory of the pass.
func (p *pass) close() error {
	if p.dir == nil {
		return nil
	}
	return p.dir.Close()
}
