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
	Type EntryType
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

// EntryType is the type of a file. The constants have the values of the JSON form.
type EntryType string

const (
	TypeFile      EntryType = "file"
	TypeDirectory EntryType = "directory"
	TypeSymlink   EntryType = "symlink"
	TypeOther     EntryType = "other" // a FIFO, a socket or a device
)

func typeOf(mode fs.FileMode) EntryType {
	switch {
	case mode.IsRegular():
		return TypeFile
	case mode.IsDir():
		return TypeDirectory
	case mode&fs.ModeSymlink != 0:
		return TypeSymlink
	}

	return TypeOther
}

// MarshalJSON never fails.
func (e FileEntry) MarshalJSON() ([]byte, error) { return json.Marshal(e.form()) }

// entryForm is the JSON form of an entry.
type entryForm struct {
	Name   string    `json:"name"`
	Type   EntryType `json:"type"`
	Size   int64     `json:"size"`
	Mtime  string    `json:"mtime"`
	MIME   string    `json:"mime,omitempty"`
	Target string    `json:"target,omitempty"`
}

func (e *FileEntry) form() *entryForm {
	return &entryForm{Name: e.Name, Type: e.Type, Size: e.Size, Mtime: instant.Format(e.ModTime), MIME: e.MIME, Target: e.Target}
}
