package session

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// maxSyncs limits the files that are synced in parallel. Each sync blocks a thread of the system,
// and file systems write the changes of syncs that wait at the same time together.
const maxSyncs = 32

// sync syncs a file, and its folder if the name of the file is new. The folder comes first: files
// whose syncs begin together share that of the folder, but their own syncs end one after another.
func (f *Files) sync(file *os.File, path string, newName bool) error {
	if newName {
		f.syncFolder(filepath.Dir(path))
	}
	f.syncing <- struct{}{}
	defer func() { <-f.syncing }()
	return f.fsync(file)
}

// folder is a folder of files whose names are new.
type folder struct {
	mu     sync.Mutex   // held during a sync, guards linked
	begun  atomic.Int64 // the number of syncs that have begun
	linked bool         // the name of the folder is synced too
}

// syncFolder syncs a folder, and the ones above it if the process has not synced them yet. Callers
// that wait for a sync in progress share the next one.
func (f *Files) syncFolder(path string) {
	f.mu.Lock()
	d := f.folders[path]
	if d == nil {
		d = &folder{}
		f.folders[path] = d
	}
	f.mu.Unlock()
	begun := d.begun.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun.Load() > begun { // a sync began after the call, and has ended
		return
	}
	d.begun.Add(1)
	f.syncDir(path)
	if !d.linked && path != "." {
		f.syncFolder(filepath.Dir(path))
		d.linked = true
	}
}

// syncDir syncs a directory. It ignores errors: not every system supports it, and the sync of the
// file reports a failing disk.
func (f *Files) syncDir(path string) {
	dir, err := f.root.Open(path)
	if err != nil {
		return
	}
	_ = f.fsync(dir)
	_ = dir.Close()
}
