//go:build amd64 || arm64

package groupsync

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// capacity is the number of syncs that a queue has at most.
const capacity = 256

// Constants of include/uapi/linux of the kernel.
const (
	cmdFsync    = 2 // IOCB_CMD_FSYNC, since Linux 4.18
	flagEventFD = 1 // IOCB_FLAG_RESFD
	rangeWrite  = 2 // SYNC_FILE_RANGE_WRITE
)

// iocb is struct iocb of a little-endian system with 64 bits, a request of io_submit(2).
type iocb struct {
	data    uint64
	_       [2]uint32 // aio_key, aio_rw_flags
	opcode  uint16
	_       int16 // aio_reqprio
	fd      uint32
	_       [4]uint64 // aio_buf, aio_nbytes, aio_offset, reserved
	flags   uint32
	eventFD uint32
}

// event is struct io_event, the result of a request.
type event struct {
	data   uint64
	_      uint64 // obj
	result int64
	_      int64 // res2
}

// queue is a queue of asynchronous input and output. Its goroutine waits without a thread.
type queue struct {
	context uintptr  // aio_context_t
	counter *os.File // an eventfd(2), to which the kernel adds the number of results
	fd      uint32   // of counter
}

// newQueue returns nil if the system has no such queue, or has no more of them.
func newQueue() *queue {
	const nonBlocking, closeOnExec = syscall.O_NONBLOCK, syscall.O_CLOEXEC
	fd, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, nonBlocking|closeOnExec, 0)
	if errno != 0 {
		return nil
	}
	q := &queue{counter: os.NewFile(fd, "eventfd"), fd: uint32(fd)}
	if _, _, errno = syscall.Syscall(syscall.SYS_IO_SETUP, capacity, uintptr(unsafe.Pointer(&q.context)), 0); errno != 0 {
		_ = q.counter.Close()
		return nil
	}
	return q
}

func (q *queue) close() {
	_, _, _ = syscall.Syscall(syscall.SYS_IO_DESTROY, q.context, 0, 0)
	_ = q.counter.Close()
}

// sync syncs the files. A file that the queue rejects is synced by a call that blocks. After a
// failure of the queue, sync returns false and has synced all files in this way.
func (q *queue) sync(files []*os.File, done func(i int, err error)) (ok bool) {
	// The system allocates and writes the blocks of all files first. The sync of one file then also
	// writes what the files next to it need.
	for _, file := range files {
		_ = syscall.SyncFileRange(int(descriptor(file)), 0, 0, rangeWrite) // the sync reports the error
	}
	for first := 0; first < len(files); first += capacity {
		group := files[first:min(first+capacity, len(files))]
		groupDone := func(i int, err error) { done(first+i, err) }
		if !q.syncGroup(group, groupDone) {
			syncInThreads(files[first+len(group):], func(i int, err error) { done(first+len(group)+i, err) })
			return false
		}
	}
	return true
}

// syncGroup is sync for at most capacity files.
func (q *queue) syncGroup(files []*os.File, done func(i int, err error)) (ok bool) {
	requests := make([]iocb, len(files))
	list := make([]*iocb, len(files))
	for i, file := range files {
		requests[i] = iocb{data: uint64(i), opcode: cmdFsync, fd: uint32(descriptor(file)), flags: flagEventFD, eventFD: q.fd}
		list[i] = &requests[i]
	}
	pending := map[int]bool{}
	for i := 0; i < len(files); {
		n, _, errno := syscall.Syscall(syscall.SYS_IO_SUBMIT, q.context, uintptr(len(list)-i), uintptr(unsafe.Pointer(&list[i])))
		if errno != 0 { // the first request of the list is rejected
			done(i, files[i].Sync())
			i++
			continue
		}
		for range n {
			pending[i] = true
			i++
		}
	}
	for len(pending) > 0 {
		results, err := q.results(len(pending))
		if err != nil {
			for i := range pending {
				done(i, files[i].Sync())
			}
			return false
		}
		for _, e := range results {
			i := int(e.data)
			delete(pending, i)
			var err error
			if e.result != 0 {
				err = &os.PathError{Op: "sync", Path: files[i].Name(), Err: syscall.Errno(-e.result)}
			}
			done(i, err)
		}
	}
	return true
}

// results waits for results, and returns those that the queue has, at most n.
func (q *queue) results(n int) ([]event, error) {
	events := make([]event, n)
	for {
		var count [8]byte // which may include results that were returned before
		if _, err := q.counter.Read(count[:]); err != nil {
			return nil, err
		}
		found, _, errno := syscall.Syscall6(syscall.SYS_IO_GETEVENTS, q.context, 0, uintptr(n), uintptr(unsafe.Pointer(&events[0])), 0, 0)
		switch {
		case errno != 0 && !errors.Is(errno, syscall.EINTR):
			return nil, errno
		case errno == 0 && found > 0:
			return events[:found], nil
		}
	}
}

// descriptor returns the number of an open file, or -1.
func descriptor(file *os.File) int {
	number := -1
	if conn, err := file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { number = int(fd) }) // an error leaves -1
	}
	return number
}
