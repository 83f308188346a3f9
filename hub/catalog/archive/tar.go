package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/seed93082962/agenthost/internal/skillzip"
)

// maxHeaders bounds the bytes of a tar in addition to the contents of its files.
const maxHeaders = 16 << 20

// readTar reads a .tar.gz as a stream.
func (s *spool) readTar(in io.Reader) error {
	packed, err := gzip.NewReader(in)
	if err != nil {
		return &Error{Reason: "the file is not a .tar.gz: " + err.Error()}
	}
	bounded := &io.LimitedReader{R: packed, N: s.limit + maxHeaders}
	r := tar.NewReader(bounded)
	for entries := 0; ; entries++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &Error{Reason: "the file is not a .tar.gz: " + err.Error()}
		}
		if entries == skillzip.MaxEntries {
			return skillzip.TooMany()
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir:
			err = s.add(h.Name, h.Typeflag == tar.TypeDir, h.Mode&0o111 != 0, r)
		case tar.TypeXGlobalHeader: // git archive writes one
		case tar.TypeSymlink, tar.TypeLink:
			err = &Error{Entry: h.Name, Reason: "is a link"}
		default:
			err = &Error{Entry: h.Name, Reason: "is not a regular file"}
		}
		if err != nil {
			return err
		}
	}
	// The rest is padding and the checksum.
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return &Error{Reason: "the file is not a .tar.gz: " + err.Error()}
	}
	if bounded.N == 0 {
		return &Error{Reason: fmt.Sprintf("the archive is more than %d MiB large when it is unpacked", (s.limit+maxHeaders)>>20)}
	}
	return nil
}
