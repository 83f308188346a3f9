package filesafe

import "io/fs"

// FS returns the directory as an [fs.FS]. Unlike os.DirFS it confines paths; unlike [os.Root.FS] it
// follows every link that ends inside and opens neither FIFOs nor devices.
func (d *Dir) FS() fs.FS { return tree{d} }

type tree struct{ dir *Dir }

func (t tree) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("stat", name, fs.ErrInvalid)
	}
	return t.dir.Stat(name)
}

func (t tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	f, _, err := t.dir.open(name, true)
	if err != nil { // a nil *os.File would be a non-nil fs.File
		return nil, err
	}
	return f, nil
}
