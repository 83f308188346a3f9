//go:build amd64 || arm64

package filesafe

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// Of fstatat(2), which package syscall does not have.
const (
	symlinkNoFollow = 0x100
	fstatatAMD64    = 262
	fstatatARM64    = 79
)

// looker looks at what is in open directories. It is os.Root.Lstat without what that does to paths and without an
// fs.FileInfo, which take as long as the system call; a name that comes from the directory itself is no path.
type looker struct {
	call func(fd uintptr) // what follows is for and from it
	name []byte
	stat syscall.Stat_t
	err  syscall.Errno
}

func newLooker() *looker {
	l := &looker{}
	l.call = l.fstatat // once, not for each file
	return l
}

func (l *looker) fstatat(fd uintptr) {
	trap := uintptr(fstatatAMD64)
	if runtime.GOARCH == "arm64" {
		trap = fstatatARM64
	}
	for {
		_, _, l.err = syscall.Syscall6(trap, fd, uintptr(unsafe.Pointer(&l.name[0])), uintptr(unsafe.Pointer(&l.stat)), symlinkNoFollow, 0, 0)
		if l.err != syscall.EINTR {
			return
		}
	}
}

// at describes what stands at name in a directory. It follows no link.
func (l *looker) at(_ *os.Root, dir syscall.RawConn, name string) (status, error) {
	l.name = append(append(l.name[:0], name...), 0)
	if err := dir.Control(l.call); err != nil {
		return status{}, err
	}
	if l.err != 0 {
		return status{}, l.err
	}
	mode := fs.ModeIrregular
	switch l.stat.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		mode = 0
	case syscall.S_IFDIR:
		mode = fs.ModeDir
	case syscall.S_IFLNK:
		mode = fs.ModeSymlink
	}
	return status{mode, l.stat.Size, time.Unix(l.stat.Mtim.Unix())}, nil
}
