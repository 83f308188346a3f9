package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/seed93082962/agenthost/internal/skillzip"
)

const (
	encrypted   = 1<<0 | 1<<6 | 1<<13 // flags of an encrypted entry or directory
	descriptor  = 1 << 3              // flag: the sizes follow the content
	localHeader = 30                  // bytes before the name
	maxName     = 1<<16 - 1
	maxExtra    = 1<<16 - 1
)

// readZip reads a .zip.
func (s *spool) readZip(in io.ReaderAt, size int64) error {
	z, err := skillzip.Open(in, size)
	if err != nil {
		return err
	}
	header := make([]byte, localHeader+maxName+maxExtra)
	for _, f := range z.File {
		if err := s.addZipped(in, f, header); err != nil {
			return err
		}
	}
	return nil
}

func (s *spool) addZipped(in io.ReaderAt, f *zip.File, header []byte) error {
	mode := f.Mode()
	// Programs of Windows separate the segments of a path with backslashes, which a zip must not have.
	name := strings.ReplaceAll(f.Name, `\`, "/")
	dir := strings.HasSuffix(name, "/")
	reason := ""
	switch {
	case f.Flags&encrypted != 0:
		reason = "is encrypted"
	case mode&fs.ModeSymlink != 0:
		reason = "is a link"
	case mode.Type() != 0 && mode.Type() != fs.ModeDir, mode.IsDir() && !dir:
		reason = "is not a regular file"
	case dir && f.UncompressedSize64 != 0:
		reason = "is a directory with content"
	case !agrees(in, f, header):
		reason = "has another header than in the directory of the archive"
	}
	if reason != "" {
		return &Error{Entry: f.Name, Reason: reason}
	}
	r, err := f.Open()
	if err != nil {
		return &Error{Entry: f.Name, Reason: "cannot be read: " + err.Error()}
	}
	defer func() { _ = r.Close() }() // it was opened for reading
	return s.add(name, dir, mode&0o111 != 0, r)
}

// agrees reports whether the header before the content is that of the directory. It reads it into
// the buffer.
func agrees(in io.ReaderAt, f *zip.File, buffer []byte) bool {
	content, err := f.DataOffset()
	if err != nil {
		return false
	}
	least := int64(localHeader + len(f.Name))
	begin := max(0, content-least-maxExtra)
	data := buffer[:content-begin]
	if _, err := in.ReadAt(data, begin); err != nil && err != io.EOF {
		return false
	}
	// The length of the extra field is in the header, which is that far from the content.
	for extra := 0; int64(extra)+least <= int64(len(data)) && extra <= maxExtra; extra++ {
		h := data[len(data)-int(least)-extra:]
		if string(h[:4]) != "PK\x03\x04" || int(binary.LittleEndian.Uint16(h[28:])) != extra || int(binary.LittleEndian.Uint16(h[26:])) != len(f.Name) {
			continue
		}
		flags := binary.LittleEndian.Uint16(h[6:])
		sized := flags&descriptor != 0 || f.CompressedSize64 >= 1<<32-1 ||
			binary.LittleEndian.Uint32(h[14:]) == f.CRC32 &&
				uint64(binary.LittleEndian.Uint32(h[18:])) == f.CompressedSize64 && uint64(binary.LittleEndian.Uint32(h[22:])) == f.UncompressedSize64
		return string(h[localHeader:least]) == f.Name && flags&encrypted == 0 && binary.LittleEndian.Uint16(h[8:]) == f.Method && sized
	}
	return false
}

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
