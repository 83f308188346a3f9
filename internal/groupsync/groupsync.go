// Package groupsync syncs many open files at the same time.
//
// A call of fsync(2) occupies a thread, and with it one of the GOMAXPROCS slots for goroutines if
// the call is short. On a machine with few processors, the syncs of many goroutines therefore
// follow each other, and nothing else runs meanwhile. On Linux, a [Syncer] passes all files of a
// group to the kernel by one call of io_submit(2), and the kernel syncs them in parallel.
package groupsync

import (
	"os"
	"sync"
	"sync/atomic"
)

// maxThreads limits the files that are synced in parallel without a queue. Each of them occupies a
// thread.
const maxThreads = 32

// Syncer syncs groups of files. The zero value is ready to use. A Syncer is safe for concurrent
// use: it syncs one group after another.
type Syncer struct {
	mu     sync.Mutex // guards the fields below, held during a group
	queue  *queue     // nil if the system has none
	opened bool       // newQueue was called, or Close
}

// Sync syncs the files as [os.File.Sync] does, and returns when all of them are synced. It calls
// done with the index and the error of each file when that file is synced. Several goroutines may
// call done. No file may be closed before that.
func (s *Syncer) Sync(files []*os.File, done func(i int, err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(files) > 1 && !s.opened {
		s.opened = true
		s.queue = newQueue()
	}
	if len(files) == 1 || s.queue == nil {
		syncInThreads(files, done)
	} else if !s.queue.sync(files, done) {
		s.closeQueue()
	}
}

// Close releases the queue of the kernel. A Syncer remains usable after Close, without the queue.
func (s *Syncer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeQueue()
	s.opened = true
}

func (s *Syncer) closeQueue() {
	if s.queue != nil {
		s.queue.close()
		s.queue = nil
	}
}

// syncInThreads syncs the files in parallel.
func syncInThreads(files []*os.File, done func(i int, err error)) {
	if len(files) == 1 {
		done(0, files[0].Sync())
		return
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(files), maxThreads) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(files); i = int(next.Add(1)) - 1 {
				done(i, files[i].Sync())
			}
		})
	}
	workers.Wait()
}
