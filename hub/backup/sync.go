package backup

import (
	"context"
	"os"
	"time"
)

// A commit of the database waits for the disk, and so for what this process has written before and
// the system has not: that is synced in small steps, and not at the end. Between the steps of an
// archive, the disk is free for twice as long as a step takes.
const (
	syncBytes = 1 << 20
	syncPause = 2 // times the duration of a step
	syncEvery = 50 * time.Millisecond
)

// syncedFile is a file that is synced while it is written. Its writes end with its context.
type syncedFile struct {
	*os.File

	ctx     context.Context
	written int // bytes since the last sync
}

func (f *syncedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.written += n; err != nil || f.written < syncBytes {
		return n, err
	}
	f.written = 0
	began := time.Now()
	if err := f.Sync(); err != nil {
		return n, err
	}
	select {
	case <-time.After(syncPause * time.Since(began)):
		return n, nil
	case <-f.ctx.Done():
		return n, context.Cause(f.ctx)
	}
}

// syncing syncs a file that others write until stop is called.
func syncing(f *os.File) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(syncEvery)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-tick.C:
			}
			_ = f.Sync() // the file is temporary
		}
	}()
	return func() { close(stopped); <-ended }
}
