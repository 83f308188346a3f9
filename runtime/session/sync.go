package session

import (
	"os"
	"path/filepath"
	"runtime"
)

// syncRequest is a file or a folder that waits for its sync.
type syncRequest struct {
	file   *os.File // nil for a folder only
	folder string   // relative to root; "" if the names in the folder of the file are synced
	done   chan error
}

// sync syncs a file, unless it is nil, and before it the folder, unless that is "". Calls at the
// same time share their syncs: those that wait for a group in progress are the next group.
func (f *Files) sync(file *os.File, folder string) error {
	r := syncRequest{file: file, folder: folder, done: make(chan error, 1)}
	f.mu.Lock()
	f.waiting = append(f.waiting, r)
	first := !f.syncing
	f.syncing = true
	f.mu.Unlock()
	if first {
		f.syncWaiting()
	}
	return <-r.done
}

// syncWaiting syncs the requests that wait. Another goroutine continues with those that were added
// in the meantime.
func (f *Files) syncWaiting() {
	runtime.Gosched() // runs that end at the same time add their files first
	f.mu.Lock()
	group := f.waiting
	f.waiting = nil
	f.mu.Unlock()
	f.syncGroup(group)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.syncing = len(f.waiting) > 0; f.syncing {
		go f.syncWaiting() // the requests wait for it
	}
}

// syncGroup syncs the folders of a group first, each once, and then its files.
func (f *Files) syncGroup(group []syncRequest) {
	synced := map[string]bool{"": true}
	var files []*os.File
	var results []chan error
	for _, r := range group {
		if !synced[r.folder] {
			synced[r.folder] = true
			f.syncFolder(r.folder)
		}
		if r.file == nil {
			r.done <- nil
			continue
		}
		files = append(files, r.file)
		results = append(results, r.done)
	}
	f.syncFiles(files, func(i int, err error) { results[i] <- err })
}

// syncFolder syncs a folder, and the ones above it if the store has not synced them yet. It ignores
// errors: not every system can sync a folder, and the sync of the file reports a failing disk.
func (f *Files) syncFolder(path string) {
	if folder, err := f.root.Open(path); err == nil {
		f.syncFiles([]*os.File{folder}, func(int, error) {})
		_ = folder.Close()
	}
	if !f.linked[path] && path != "." {
		f.syncFolder(filepath.Dir(path))
		f.linked[path] = true
	}
}
