package filesafe

import (
	"encoding/json"
	"io/fs"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/instant"
)

// FileEntry is a file or a directory in a listing. Its JSON form has the keys name, type, size and
// mtime, and mime and target if they are not empty. Bytes that are not UTF-8 become U+FFFD. Times
// have six sub-second digits, and those outside the years 1 to 9999 are the nearest ones inside.
type FileEntry struct {
	// Name is the name of the file; from [Dir.Walk] its path relative to the directory, with "/".
	Name string
	// Type is "file", "directory", "symlink", or "other" for a FIFO, a socket or a device.
	Type string
	// Size is in bytes. A symlink has the size of the file that it leads to. Size is 0 for other
	// types and for links that are broken or lead outside.
	Size int64
	// ModTime is the time of the entry itself, also for a symlink.
	ModTime time.Time
	// MIME is the media type of a file by its extension.
	MIME string
	// Target is the end of a symlink, relative to the directory and with "/". It is empty for links
	// that are broken or lead outside.
	Target string
}

// The types of entries.
const (
	typeFile      = "file"
	typeDirectory = "directory"
	typeSymlink   = "symlink"
	typeOther     = "other"
)

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return typeFile
	case mode.IsDir():
		return typeDirectory
	case mode&fs.ModeSymlink != 0:
		return typeSymlink
	}

	return typeOther
}

// MarshalJSON never fails.
func (e FileEntry) MarshalJSON() ([]byte, error) { return json.Marshal(e.form()) }

// entryForm is the JSON form of an entry.
type entryForm struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	Mtime  string `json:"mtime"`
	MIME   string `json:"mime,omitempty"`
	Target string `json:"target,omitempty"`
}

func (e *FileEntry) form() *entryForm {
	return &entryForm{Name: e.Name, Type: e.Type, Size: e.Size, Mtime: instant.Format(e.ModTime), MIME: e.MIME, Target: e.Target}
}
