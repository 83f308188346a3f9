package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/pattern"
)

const (
	// sweepInterval is the time from the end of one sweep to the start of the next.
	sweepInterval = time.Hour

	// A step of a sweep examines at most stepEntries files, and begins no further one after
	// stepTime. Examining a file takes about 2 us, removing one 150 us.
	stepEntries = 64
	stepTime    = 5 * time.Millisecond
	stepPause   = 20 * time.Millisecond
)

// sweep removes expired files until ctx ends.
func (f *Files) sweep(ctx context.Context) {
	w := walk{root: f.root, folders: []string{f.base}}
	defer w.close()
	for {
		pause := stepPause
		if !f.sweepStep(&w) {
			pause = min(f.cfg.TTL, sweepInterval)
			w.folders = []string{f.base}
		}

		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// sweepStep examines the next files. It returns false after the last one.
func (f *Files) sweepStep(w *walk) bool {
	began := time.Now()
	for n := 0; n < stepEntries && time.Since(began) < stepTime; n++ {
		e, err := w.next()
		switch {
		case errors.Is(err, io.EOF):
			return false
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			f.cfg.Logger.Warn("cannot list a folder of transcripts", "folder", w.folder, "err", err)
		case e == nil:
		case e.IsDir():
			f.sweepFolder(w, e.Name())
		case w.folder != f.base:
			f.sweepEntry(w.folder, e)
		}
	}

	return true
}

var shardForm = pattern.Compile(`^[0-9a-f]{2}$`)

// sweepFolder adds the folder of an agent or a shard to the walk.
func (f *Files) sweepFolder(w *walk, name string) {
	isAgent := w.folder == f.base && validAgent(name)
	isShard := filepath.Dir(w.folder) == f.base && shardForm().MatchString(name)
	if isAgent || isShard {
		w.folders = append(w.folders, filepath.Join(w.folder, name))
	}
}

// agentOf returns the agent of a folder.
func (f *Files) agentOf(folder string) string {
	if parent := filepath.Dir(folder); parent != f.base {
		folder = parent
	}

	return filepath.Base(folder)
}

// sweepEntry removes an expired file unless it is in use.
func (f *Files) sweepEntry(folder string, e fs.DirEntry) {
	id, isTranscript := strings.CutSuffix(e.Name(), extension)
	isTemporary := false
	if !isTranscript {
		id, isTemporary = strings.CutSuffix(e.Name(), newExtension)
	}

	if !isTranscript && !isTemporary || !validFile(id) || !e.Type().IsRegular() {
		return
	}

	info, err := e.Info()
	if err != nil || !f.expired(info) { // an error means that another process has removed the file
		return
	}

	path, k := filepath.Join(folder, e.Name()), key{f.agentOf(folder), id}
	if isTemporary { // left by a crash: no compaction takes as long as the TTL
		err = f.root.Remove(path)
	} else if f.acquire(k) {
		err = f.removeExpired(path)
		f.release(k)
	}

	if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, fs.ErrNotExist) {
		f.cfg.Logger.Warn("cannot remove an expired transcript", "session_id", id, "agent", k.agent, "err", err)
	}
}

// removeExpired locks a transcript and removes it if it is still expired.
func (f *Files) removeExpired(path string) error {
	file, info, err := f.openLocked(path)
	if err != nil {
		return err
	}

	if f.expired(info) {
		err = f.root.Remove(path)
	}

	return errors.Join(err, unlockAndClose(file))
}

// walk lists folders in parts, because one may have any number of files.
type walk struct {
	root    *os.Root
	folders []string // to be listed
	folder  string   // of dir
	dir     *os.File // nil between two folders
	entries []fs.DirEntry
}

// next returns the next entry, which is nil between two folders. It returns io.EOF after the last
// folder, and continues with the next folder after any other error.
func (w *walk) next() (fs.DirEntry, error) {
	if len(w.entries) > 0 {
		e := w.entries[0]
		w.entries = w.entries[1:]
		return e, nil
	}

	var err error
	if w.dir == nil {
		last := len(w.folders) - 1
		if last < 0 {
			return nil, io.EOF
		}

		w.folder = w.folders[last]
		w.folders = w.folders[:last]
		w.dir, err = w.root.OpenFile(w.folder, os.O_RDONLY|openFlags, 0)
		return nil, err
	}

	if w.entries, err = w.dir.ReadDir(stepEntries); err == nil {
		return nil, nil
	}

	w.close()
	if errors.Is(err, io.EOF) {
		err = nil
	}

	return nil, err
}

// close releases the folder that is being listed.
func (w *walk) close() {
	if w.dir != nil {
		_ = w.dir.Close() // read-only
		w.dir = nil
	}
}
