package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
)

// FilesConfig of a [Files] store. Dir and CWD are required.
type FilesConfig struct {
	// Dir is the state directory. It is made if it is missing; "sessions" below it is the
	// store's.
	Dir string

	// CWD is the directory that the agents work in. Each has sessions of its own, by whatever
	// path or link it is named.
	CWD string

	// TTL is how long a session is kept after its last message. Defaults to 720 h.
	TTL time.Duration

	// Logger is told what was repaired, and which old transcript could not be removed. Defaults
	// to none.
	Logger *slog.Logger
}

// Files is a Store of one JSON Lines file for each session, which other processes may use at
// the same time:
//
//	<Dir>/sessions/<hash of CWD>/<agent id>/<session id>.jsonl
//
// The first line is a header with the version of the format, each of the others a
// [model.Message]. A message is appended by one write before Append returns, so that it outlives
// the process; Close syncs the file, so that it outlives the machine too. A session has no file
// before its first message, and an open one is locked: see below for which systems.
//
// Compact writes a file of the same format beside the old one, syncs it and puts it in the old one's
// place: a transcript does not grow with what is no longer said, and any version of this package
// that reads one reads the other. What a crash in the middle of that leaves behind, <session id>.new, is
// removed by the next Compact, or when it is TTL old.
//
// What a crash in the middle of an append has left of a last line is cut off by the next append.
// Any other line that cannot be read makes Open answer [ErrDamaged], one from a later version of
// this package [ErrNewer]. Such a file is left as it is, for somebody who can put it right.
//
// Files older than TTL are removed when the store is made and as sessions are opened, a few at a
// time, unless they are in use. Those of other working directories are not looked at.
//
// The lock is flock(2) on Linux, macOS, the BSDs and illumos, and LockFileEx on Windows; the
// system frees it when its holder dies. On other systems it holds within one Files alone.
type Files struct {
	cfg  FilesConfig
	root *os.Root // at cfg.Dir: no name and no link leads out
	base string   // sessions/<hash>, in root

	near *os.Root // at base, which is a long walk from root

	mu   sync.Mutex
	held map[key]struct{} // sessions in the hands of a run, guarded by mu

	syncs chan struct{}        // has a place for each sync that may run
	fsync func(*os.File) error // (*os.File).Sync, which a test may watch

	sweeping sync.Mutex // guards pass
	pass     pass
}

var _ Store = (*Files)(nil)

// NewFiles opens the store of one working directory. Its owner calls [Files.Close].
func NewFiles(cfg FilesConfig) (*Files, error) {
	switch {
	case cfg.Dir == "":
		return nil, errors.New("open session store: no state directory")
	case cfg.CWD == "":
		return nil, errors.New("open session store: no working directory")
	case cfg.TTL < 0:
		return nil, fmt.Errorf("open session store: TTL %v is negative", cfg.TTL)
	}
	cfg.TTL = cmp.Or(cfg.TTL, 720*time.Hour)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	f := &Files{cfg: cfg, held: map[key]struct{}{}, syncs: make(chan struct{}, maxSyncs), fsync: (*os.File).Sync}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("open session store: %w", err)
	}
	f.sweep(sweepAtStart)
	return f, nil
}

func (f *Files) open() error {
	cwd, err := filepath.Abs(f.cfg.CWD)
	if err == nil {
		cwd, err = filepath.EvalSymlinks(cwd)
	}
	if err != nil {
		return fmt.Errorf("find working directory: %w", err)
	}
	f.cfg.CWD = cwd
	hash := sha256.Sum256([]byte(cwd))
	f.base = filepath.Join("sessions", hex.EncodeToString(hash[:16]))
	if err := os.MkdirAll(f.cfg.Dir, 0o700); err != nil {
		return err
	}
	if f.root, err = os.OpenRoot(f.cfg.Dir); err != nil {
		return err
	}
	if err = f.root.MkdirAll(f.base, 0o700); err == nil {
		f.near, err = f.root.OpenRoot(f.base)
	}
	if err != nil {
		_ = f.root.Close() // nothing was written
	}
	return err
}

// Close lets go of the directory. Sessions still open can be appended to if they have a file,
// and are to be closed by who holds them.
func (f *Files) Close() error {
	f.sweeping.Lock()
	defer f.sweeping.Unlock()
	return errors.Join(f.pass.end(), f.near.Close(), f.root.Close())
}

// Open implements [Store]. The id of an agent is ^[a-z0-9](-?[a-z0-9])*$, at most 63 characters.
func (f *Files) Open(_ context.Context, agentID, id string) (Session, error) {
	if !validAgent(agentID) {
		return nil, fmt.Errorf("open session: %q cannot be the id of an agent", agentID)
	}
	f.sweep(sweepAtOpen)
	if k := (key{agentID, id}); validFile(id) {
		t, err := f.resume(k)
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, ErrBusy):
			return nil, ErrBusy
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("open session %s of agent %s: %w", id, agentID, err)
		}
	}
	k := key{agentID, ids.New()}
	f.hold(k)
	return &transcript{store: f, key: k}, nil
}

var agentForm = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)

// IsLocal knows the names that Windows takes for devices.
func validAgent(id string) bool {
	return len(id) <= 63 && agentForm.MatchString(id) && filepath.IsLocal(id)
}

func validFile(id string) bool { return ValidID(id) && filepath.IsLocal(id+extension) }

const (
	extension    = ".jsonl"
	newExtension = ".new" // of what Compact is about to put in a transcript's place
)

// name of the file of a session, in root.
func (f *Files) name(k key) string { return filepath.Join(f.base, k.agent, k.id+extension) }

func (f *Files) hold(k key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, busy := f.held[k]; busy {
		return false
	}
	f.held[k] = struct{}{}
	return true
}

func (f *Files) free(k key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, k)
}

// resume answers fs.ErrNotExist if there is no such session.
func (f *Files) resume(k key) (_ *transcript, err error) {
	if !f.hold(k) {
		return nil, ErrBusy
	}
	defer func() {
		if err != nil {
			f.free(k)
		}
	}()
	file, info, err := f.grab(f.name(k))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = drop(file) // nothing was written
		}
	}()
	if f.old(info) { // whether it can be removed or not, it is gone
		return nil, errors.Join(f.root.Remove(f.name(k)), fs.ErrNotExist)
	}
	c, err := read(file, info.Size())
	if err != nil {
		return nil, err
	}
	// A file system may take two names for one, and a link in the directory of one agent may
	// lead to that of another.
	if len(c.messages) == 0 || c.header.ID != k.id || c.header.Agent != k.agent {
		return nil, fs.ErrNotExist
	}
	if c.end < info.Size() {
		f.cfg.Logger.Warn("an append to a session had broken off, what is left of it will be cut off",
			"session", k.id, "agent", k.agent, "bytes", info.Size()-c.end)
	}
	return &transcript{
		store: f, key: k, resumed: true, messages: c.messages, created: c.header.Created,
		file: file, size: info.Size(), end: c.end, unended: c.unended,
	}, nil
}

const (
	// maxSyncs bounds how many files are synced side by side. Each takes a thread of the system for
	// as long as the disk does: where hundreds of runs end at once those would be in the way of
	// the runs that are still to be stopped.
	maxSyncs = 2

	// syncPatience is how long a sync waits for its turn: a slow disk serves many at once better than
	// one after another.
	syncPatience = 50 * time.Millisecond
)

// sync makes what was written to a file outlive the machine, and the file's name if it is new.
func (f *Files) sync(file *os.File, agent string, named bool) error {
	select {
	case f.syncs <- struct{}{}:
		defer func() { <-f.syncs }()
	default:
		late := time.NewTimer(syncPatience)
		defer late.Stop()
		select {
		case f.syncs <- struct{}{}:
			defer func() { <-f.syncs }()
		case <-late.C:
		}
	}
	err := f.fsync(file)
	if named {
		f.syncDir(agent)
	}
	return err
}

// syncDir writes down which files there are. Not every system can do that to a directory, and a
// disk that fails has told so when the file was synced.
func (f *Files) syncDir(agent string) {
	dir, err := f.near.Open(agent)
	if err != nil {
		dir, err = f.root.Open(filepath.Join(f.base, agent))
	}
	if err != nil {
		return
	}
	_ = f.fsync(dir)
	_ = dir.Close()
}

// create makes the file of a session.
func (f *Files) create(k key) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL | openFlags
	file, err := f.near.OpenFile(filepath.Join(k.agent, k.id+extension), flags, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	// The agent's first session, or somebody has removed base.
	name := f.name(k)
	if err := f.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	return f.root.OpenFile(name, flags, 0o600)
}

// grab opens and locks the file of a session, for drop to let go of.
func (f *Files) grab(name string) (*os.File, fs.FileInfo, error) {
	file, err := f.root.OpenFile(name, os.O_RDWR|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.own(file, name)
	if err != nil {
		_ = drop(file) // nothing was written
		return nil, nil, err
	}
	return file, info, nil
}

// own locks an open file and makes sure that it is still the one at its name, which a sweep may
// have removed in between and a run replaced, and that it got there by no link.
func (f *Files) own(file *os.File, name string) (fs.FileInfo, error) {
	if err := lock(file); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	there, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !there.Mode().IsRegular() || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file", ErrDamaged)
	}
	if !os.SameFile(info, there) { // the run that compacted it held it a moment ago, and may still
		return nil, ErrBusy
	}
	return info, nil
}

// drop unlocks a file and closes it. Closing alone would not unlock it while a child that the
// process is just about to start shares it.
func drop(file *os.File) error { return errors.Join(unlock(file), file.Close()) }

func (f *Files) old(info fs.FileInfo) bool { return time.Since(info.ModTime()) >= f.cfg.TTL }
