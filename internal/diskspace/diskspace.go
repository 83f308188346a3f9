// Package diskspace reports what a file system has room for.
package diskspace

// Space is what the file system of a directory has room for.
type Space struct {
	Bytes uint64
	Files uint64 // the largest number if the file system has no limit
}
