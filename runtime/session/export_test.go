package session

import "os"

// WatchSyncs replaces the sync of files and directories by watch, which receives the original
// function. It must be called before the store is used.
func (f *Files) WatchSyncs(watch func(file *os.File, sync func(*os.File) error) error) {
	f.syncFile = func(file *os.File) error { return watch(file, (*os.File).Sync) }
}

// Errors that tests compare.
var (
	ErrDamaged = errDamaged
	ErrNewer   = errNewer
)
