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

// Constants of fstatat(2), which package syscall does not define.
const (
	symlinkNoFollow = 0x100
	fstatatAMD64    = 262
	fstatatARM64    = 79
)

// looker reads the status of entries of open directories. It is os.Root.Lstat without the
// processing of paths and without an fs.FileInfo, which together take as long as the system call.
// Names come from the directory itself.
type looker struct {
	name []byte // ends with a null byte
	stat syscall.Stat_t
}

// at returns the status of the entry at name. It does not follow links.
func (l *looker) at(_ *os.Root, dir int, name string) (status, error) {
	trap := uintptr(fstatatAMD64)
	if runtime.GOARCH == "arm64" {
		trap = fstatatARM64
	}
	l.name = append(append(l.name[:0], name...), 0)
	for {
		//nolint:gosec // both pointers are valid until the call returns, and the name ends with a null byte
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
