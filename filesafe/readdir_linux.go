package filesafe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Offsets in a struct linux_dirent64 (getdents64(2)).
const (
	direntLength = 16 // 16 bits
	direntType   = 18
	direntName   = 19 // ends at a null byte
)

// unknownType stands where the file system does not tell what an entry is.
const unknownType = fs.ModeIrregular

// readDir calls yield with each entry, in no order. The name is valid until yield returns, and yield says whether to go on.
// os.File.ReadDir makes strings of all names, and in a directory that comes from os.Root it asks for the status of each.
func readDir(_ *os.File, fd int, buf []byte, yield func(name []byte, typ fs.FileMode) bool) error {
	for {
		n, err := syscall.ReadDirent(fd, buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		} else if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > direntName; {
			length := int(binary.NativeEndian.Uint16(rest[direntLength:]))
			if length <= direntName || length > len(rest) {
				return syscall.EIO
			}
			name := rest[direntName:length]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			typ := rest[direntType]
			rest = rest[length:]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			if !yield(name, modeOf(typ)) {
				return nil
			}
		}
	}
}

func modeOf(typ byte) fs.FileMode {
	switch typ {
	case syscall.DT_REG:
		return 0
	case syscall.DT_DIR:
		return fs.ModeDir
	case syscall.DT_LNK:
		return fs.ModeSymlink
	case syscall.DT_UNKNOWN:
		return unknownType
	}
	return fs.ModeDevice // or FIFO, or socket: whatever is neither of the above
}
