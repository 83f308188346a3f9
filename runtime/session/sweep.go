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
	// The work of one sweep, in files looked at, each for about 1.5 us: so that a start takes a
	// few milliseconds, and opening a session hardly longer than without.
	sweepAtStart = 1000
	sweepAtOpen  = 64

	// removal is how many looks it counts for to remove a file, for about 150 us.
	removal = 20

	// sweepEvery is the time from the end of one pass over all files to the next one.
	sweepEvery = time.Hour

	// batchSize bounds, in files, what is read of a directory at a time.
	batchSize = 64
)

// pass is where the pass over all files of a store stands. Its zero value is one that begins.
type pass struct {
	begun   bool
	agents  []string // those still to come
	agent   string   // the one whose directory is open
	dir     *os.File // nil between two agents
	entries []fs.DirEntry
	next    time.Time // when it begins
}

// sweep goes on with a pass, for so much work, and begins one when it is time. It leaves that to
// others who are at it.
func (f *Files) sweep(work int) {
	if !f.sweeping.TryLock() {
		return
	}
	defer f.sweeping.Unlock()
	p := &f.pass
	if !p.begun && time.Now().Before(p.next) {
		return
	}
	for ; work > 0; work-- {
		if len(p.entries) > 0 {
			if f.expire(p.agent, p.entries[0]) {
				work -= removal
			}
			p.entries = p.entries[1:]
			continue
		}
		err := f.advance()
		if errors.Is(err, io.EOF) {
			*p = pass{next: time.Now().Add(min(f.cfg.TTL, sweepEvery))}
			return
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.cfg.Logger.Warn("cannot look for old transcripts", "agent", p.agent, "err", err)
		}
	}
}

// advance takes the next entries into the pass, from one agent's directory. After the last it
// answers io.EOF; another error takes nothing but that directory out of the pass.
func (f *Files) advance() (err error) {
	p := &f.pass
	if !p.begun {
		p.begun = true
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

// agents lists those who have a directory. Links are none: they are not followed here.
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

// expire removes a transcript that is too old and that nobody holds. It reports whether it tried.
func (f *Files) expire(agent string, e fs.DirEntry) bool {
	id, ok := strings.CutSuffix(e.Name(), extension)
	left := false // by a crash
	if !ok {
		id, left = strings.CutSuffix(e.Name(), newExtension)
	}
	if !ok && !left || !validFile(id) || !e.Type().IsRegular() {
		return false
	}
	info, err := e.Info()
	if err != nil || !f.old(info) { // an error: somebody else has removed it
		return false
	}
	if left { // nobody takes so long over one
		if err := f.root.Remove(filepath.Join(f.base, agent, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.cfg.Logger.Warn("cannot remove what an old compaction left", "session", id, "agent", agent, "err", err)
		}
		return true
	}
	k := key{agent, id}
	if !f.hold(k) {
		return false
	}
	defer f.free(k)
	if err := f.remove(k); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, fs.ErrNotExist) {
		f.cfg.Logger.Warn("cannot remove an old transcript", "session", id, "agent", agent, "err", err)
	}
	return true
}

// remove removes a transcript under its lock, if it is too old even then.
func (f *Files) remove(k key) error {
	file, info, err := f.grab(f.name(k))
	if err != nil {
		return err
	}
	if f.old(info) {
		err = f.root.Remove(f.name(k))
	}
	return errors.Join(err, drop(file))
}

// end lets go of what a pass holds.
func (p *pass) end() error {
	if p.dir == nil {
		return nil
	}
	return p.dir.Close()
}
