package doctor

import "fmt"

// Bounds of free space, in bytes. A full disk ends every write.
const (
	lowSpace   = 2 << 30
	leastSpace = 200 << 20
)

// Disk returns how much space is free for a directory.
func Disk(dir string) []Result {
	free, err := freeSpace(dir)
	if err != nil {
		return Warn(fmt.Sprintf("the free space of %s is unknown: %v", dir, err), "check that the directory exists and can be accessed")
	}
	return judge(dir, free)
}

func judge(dir string, free uint64) []Result {
	fact := fmt.Sprintf("%d MiB are free in %s", free>>20, dir)
	const fix = "delete files, or enlarge the disk: on a full disk, every change fails"
	switch {
	case free < leastSpace:
		return Fail(fact, fix)
	case free < lowSpace:
		return Warn(fact, fix)
	}
	return Fine(fact)
}
