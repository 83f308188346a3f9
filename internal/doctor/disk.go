package doctor

import (
	"fmt"

	"github.com/seed93082962/agenthost/internal/diskspace"
)

// Bounds of free space in bytes, and of free files. A full disk ends every write.
const (
	lowSpace   = 2 << 30
	leastSpace = 200 << 20
	leastFiles = 1000
)

// Disk returns how much space is free for a directory, and whether it can be written.
func Disk(dir string) []Result {
	free, err := diskspace.Free(dir)
	if err != nil {
		return Warn(fmt.Sprintf("the free space of %s is unknown: %v", dir, err), "check that the directory exists and can be accessed")
	}

	if denied := Writable(dir); denied != nil {
		return denied
	}

	return judge(dir, free)
}

// Writable returns an error if this user cannot change a file, or create files in a directory, and
// otherwise nothing.
func Writable(path string) []Result {
	err := writable(path)
	if err == nil {
		return nil
	}

	return Fail(fmt.Sprintf("%s cannot be written: %v", path, err), "run hub doctor as the user of the hub; then correct its owner and its mode, "+
		"or mount its file system for writes")
}

func judge(dir string, free diskspace.Space) []Result {
	fact := fmt.Sprintf("%d MiB are free in %s", free.Bytes>>20, dir)
	const fix = "delete files, or enlarge the disk: on a full disk, every change fails"
	switch {
	case free.Files < leastFiles:
		return Fail(fmt.Sprintf("%d more files can be created in %s", free.Files, dir), "delete files, or use a file system with more inodes")
	case free.Bytes < leastSpace:
		return Fail(fact, fix)
	case free.Bytes < lowSpace:
		return Warn(fact, fix)
	}

	return Fine(fact)
}
