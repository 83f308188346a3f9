package filesafe

import "io/fs"

// FS is the directory as an [fs.FS], which [fs.WalkDir], [fs.Glob] and templates take. Unlike os.DirFS it stays inside, and
// unlike [os.Root.FS] it follows every link that ends inside and opens neither FIFO nor device.
func (d *Dir) FS() fs.FS { return tree{d} }

type tree struct{ dir *Dir }

func (t tree) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, fault("stat", name, fs.ErrInvalid)
	}
	return t.dir.Stat(name)
}

func (t tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, fault("open", name, fs.ErrInvalid)
	}
	f, _, err := t.dir.open(name, true)
	if err != nil { // a nil *os.File is no nil fs.File
		return nil, err
	}
	return f, nil
}
