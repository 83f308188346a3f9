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
	name []byte // ends at a null byte
	stat syscall.Stat_t
}

// at describes what stands at name in a directory. It follows no link.
func (l *looker) at(_ *os.Root, dir int, name string) (status, error) {
	trap := uintptr(fstatatAMD64)
	if runtime.GOARCH == "arm64" {
		trap = fstatatARM64
	}
	l.name = append(append(l.name[:0], name...), 0)
	for {
		//nolint:gosec // both pointers are to what lives until the call returns, and the name ends at its null byte
		_, _, errno := syscall.Syscall6(trap, uintptr(dir), uintptr(unsafe.Pointer(&l.name[0])),
			uintptr(unsafe.Pointer(&l.stat)), symlinkNoFollow, 0, 0)
		if errno == 0 {
			break
		} else if errno != syscall.EINTR {
			return status{}, errno
		}
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
