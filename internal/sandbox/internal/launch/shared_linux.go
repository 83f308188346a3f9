package launch

import (
	"errors"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// Where a command has no mounts of its own, /dev/shm is that of the system, which it cannot use.
// The kernel stops it when it may open, link or remove a file there, and the launcher does so with
// files in memory, whose names only this command has. A call for another file continues, with the
// rights of the command.

const (
	sharedDirectory = "/dev/shm/"
	maxShared       = 1000 // names
	maxName         = 255  // bytes of a name

	// Calls that newer architectures do not have.
	oldCalls   = runtime.GOARCH == "amd64"
	callOpen   = 2
	callLink   = 86
	callUnlink = 87
)

// errElsewhere is the error of a call that does not concern shared files.
var errElsewhere = errors.New("another file")

// sharedFiles are the descriptors of the files of a command in /dev/shm, by name.
type sharedFiles map[string]int

// execute executes a call. The result of a call that opens a file is its descriptor.
func (f sharedFiles) execute(n *notification) (int, error) {
	switch {
	case n.call == syscall.SYS_OPENAT:
		return f.open(n.sharedName(1), n.openFlags())
	case oldCalls && n.call == callOpen:
		return f.open(n.sharedName(0), n.openFlags())
	case oldCalls && n.call == callLink:
		return -1, f.link(n.sharedName(0), n.sharedName(1))
	case n.call == syscall.SYS_LINKAT:
		return -1, f.link(n.sharedName(1), n.sharedName(3))
	case oldCalls && n.call == callUnlink:
		return -1, f.unlink(n.sharedName(0))
	case n.call == syscall.SYS_UNLINKAT:
		return -1, f.unlink(n.sharedName(1))
	}

	return -1, errElsewhere
}

// openFlags returns the flags of a call that opens a file.
func (n *notification) openFlags() int {
	if oldCalls && n.call == callOpen {
		return int(n.args[1]) // 32 bits
	}

	return int(n.args[2]) // 32 bits
}

// sharedName returns the name in /dev/shm of the file whose path is an argument of the call, or ""
// for another file.
func (n *notification) sharedName(argument int) string {
	var text [len(sharedDirectory) + maxName + 1]byte
	size := n.read(argument, text[:])
	if size < len(sharedDirectory) || string(text[:len(sharedDirectory)]) != sharedDirectory {
		return ""
	}

	for i := len(sharedDirectory); i < size; i++ {
		switch name := text[len(sharedDirectory):i]; text[i] {
		case 0:
			if string(name) == "." || string(name) == ".." {
				return ""
			}

			return string(name)
		case '/':
			return ""
		}
	}

	return ""
}

// open returns a new descriptor of a file.
func (f sharedFiles) open(name string, flags int) (int, error) {
	if name == "" {
		return -1, errElsewhere
	}

	file, found := f[name]
	switch {
	case found && flags&syscall.O_CREAT != 0 && flags&syscall.O_EXCL != 0:
		return -1, syscall.EEXIST
	case !found && flags&syscall.O_CREAT == 0:
		return -1, syscall.ENOENT
	case !found && len(f) >= maxShared:
		return -1, syscall.ENOSPC
	case !found:
		var err error
		if file, err = newMemory(); err != nil {
			return -1, err
		}

		f[name] = file
	}

	const kept = syscall.O_ACCMODE | syscall.O_TRUNC | syscall.O_APPEND | syscall.O_NONBLOCK
	return syscall.Open("/proc/self/fd/"+strconv.Itoa(file), flags&kept|syscall.O_CLOEXEC, 0)
}

// link gives a file another name.
func (f sharedFiles) link(from, to string) error {
	if from == "" || to == "" {
		return errElsewhere
	}

	file, found := f[from]
	if !found {
		return syscall.ENOENT
	}

	if _, found := f[to]; found {
		return syscall.EEXIST
	}

	if len(f) >= maxShared {
		return syscall.ENOSPC
	}

	again, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(file), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}

	f[to] = int(again)
	return nil
}

// unlink removes a name.
func (f sharedFiles) unlink(name string) error {
	if name == "" {
		return errElsewhere
	}

	file, found := f[name]
	if !found {
		return syscall.ENOENT
	}

	delete(f, name)
	return syscall.Close(file)
}

// newMemory returns the descriptor of an empty file in memory.
func newMemory() (int, error) {
	const closeOnExecute = 1
	call := uintptr(279) // memfd_create
	if oldCalls {
		call = 319
	}

	name := [...]byte{'s', 'h', 'm', 0}
	fd, _, errno := syscall.RawSyscall(call, uintptr(unsafe.Pointer(&name)), closeOnExecute, 0) // the argument of a system call
	return int(fd), failed(errno)
}
