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
	direntName   = 19 // ends with a null byte
)

// unknownType is the type if the file system does not return one.
const unknownType = fs.ModeIrregular

// readDir calls yield with each entry, in no particular order, until yield returns false. The name
// is valid until yield returns. os.File.ReadDir allocates a string for each name, and calls stat
// for each entry of a directory opened with os.Root.
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
	return fs.ModeDevice // or a FIFO or a socket
}
