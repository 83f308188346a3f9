package backup

import (
	"context"
	"os"
	"time"
)

// A commit of the database waits for the disk, and so for what this process has written before and
// the system has not: that is written to the disk in small steps. Between the steps the disk is
// free for twice as long as a step takes, or on a slow disk for maxPause, which is 40 s for a
// gigabyte.
const (
	stepBytes = 128 << 10
	stepPause = 2 // times the duration of a step
	maxPause  = 5 * time.Millisecond
)

// pacedFile writes to a file in steps. Its writes end with its context. It does not embed the file,
// whose ReadFrom would write without steps.
type pacedFile struct {
	ctx    context.Context
	file   *os.File
	onDisk int64 // bytes
	size   int64 // bytes
}

func (f *pacedFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.size += int64(n)
	if err != nil || f.size-f.onDisk < stepBytes {
		return n, err
	}

	began := time.Now()
	if err := writeBack(f.file, f.onDisk, f.size-f.onDisk); err != nil {
		return n, err
	}

	f.onDisk = f.size
	select {
	case <-time.After(min(stepPause*time.Since(began), maxPause)):
		return n, nil
	case <-f.ctx.Done():
		return n, context.Cause(f.ctx)
	}
}
