package session

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
)

// syncRequest is a file or a folder that waits for its sync.
type syncRequest struct {
	file   *os.File // nil for a folder only
	folder string   // relative to root; "" if the names in the folder of the file are synced
	done   chan error
}

// sync syncs a file, unless it is nil, and after it the folder, unless that is "". Calls at the
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

// maxSyncs bounds the files of a group that are synced in parallel. Each occupies a thread.
const maxSyncs = 32

// syncGroup syncs the files of a group, and then its folders, each once. On most file systems, the
// sync of a new file stores its name too, and that of its folder has nothing left to write.
func (f *Files) syncGroup(group []syncRequest) {
	errs := make([]error, len(group))
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(group)); i = next.Add(1) - 1 {
			if file := group[i].file; file != nil {
				errs[i] = f.syncFile(file)
			}
		}
	}
	var workers sync.WaitGroup
	for range min(len(group), maxSyncs) - 1 {
		workers.Go(work)
	}

	work()
	workers.Wait()
	synced := map[string]bool{"": true}
	for _, r := range group {
		if !synced[r.folder] {
			synced[r.folder] = true
			f.syncFolder(r.folder)
		}
	}

	for i, r := range group {
		r.done <- errs[i]
	}
}

// syncFolder syncs a folder, and the ones above it if the store has not synced them yet. It ignores
// errors: not every system can sync a folder, and the sync of the file reports a failing disk.
func (f *Files) syncFolder(path string) {
	if folder, err := f.root.OpenFile(path, os.O_RDONLY|openFlags, 0); err == nil {
		_ = f.syncFile(folder)
		_ = folder.Close()
	}

	if !f.linked[path] && path != "." {
		f.syncFolder(filepath.Dir(path))
		f.linked[path] = true
	}
}
