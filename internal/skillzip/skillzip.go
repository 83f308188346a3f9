// Package skillzip reads the archives of skills and checks their paths. The hub reads uploads
// with it, and the runtime the archives that it downloads. Both have the same limits.
//
// An archive is untrusted: a [Reader] bounds the memory of its directory, [Names] the paths, and
// [Reader.Limit] the contents, which are counted. The sizes in the archive may be wrong.
package skillzip

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
)

// Limits of an archive.
const (
	MaxPacked   = 20 << 20  // bytes
	MaxUnpacked = 100 << 20 // bytes
	MaxEntries  = 2000
)

// maxRecords bounds the signatures of directory records that zip.NewReader may read, also of
// records that are part of a file: the directory is not known before it is read.
const maxRecords = 10 * MaxEntries

// Error is the reason why an archive is rejected. Entry is "" if it concerns the archive as a
// whole.
type Error struct {
	Entry  string
	Reason string
}

func (e *Error) Error() string {
	if e.Entry == "" {
		return e.Reason
	}

	return fmt.Sprintf("entry %.200q %s", e.Entry, e.Reason)
}

// tooMany returns the error of an archive with more than MaxEntries entries.
func tooMany() *Error {
	return &Error{Reason: fmt.Sprintf("the archive has more than %d entries", MaxEntries)}
}

// open reads the directory of an archive of size bytes. An archive that is rejected has an
// [*Error], and other errors are those of in.
func open(in io.ReaderAt, size int64) (*zip.Reader, error) {
	if err := countRecords(io.NewSectionReader(in, 0, size)); err != nil {
		return nil, err
	}

	z, err := zip.NewReader(in, size)
	if err != nil {
		return nil, &Error{Reason: "the file is not a .zip: " + err.Error()}
	}

	if len(z.File) > MaxEntries {
		return nil, tooMany()
	}

	return z, nil
}

// countRecords rejects a file with so many directory records that reading them takes much memory.
func countRecords(in io.Reader) error {
	const signature = "PK\x01\x02"
	buffer := make([]byte, 64<<10)
	kept, records := 0, 0
	for {
		n, err := in.Read(buffer[kept:])
		data := buffer[:kept+n]
		if records += bytes.Count(data, []byte(signature)); records > maxRecords {
			return tooMany()
		}

		kept = copy(buffer, data[max(0, len(data)-len(signature)+1):])
		if err == io.EOF {
			return nil
		}

		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
	}
}
