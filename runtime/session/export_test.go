package session

import "os"

// WatchSyncs puts watch between the store and each sync of a file or a directory. Call it before the store is used.
func (f *Files) WatchSyncs(watch func(file *os.File, sync func(*os.File) error) error) {
	sync := f.fsync
	f.fsync = func(file *os.File) error { return watch(file, sync) }
}
