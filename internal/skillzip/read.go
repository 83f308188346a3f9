package skillzip

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Member is a file or a directory of an archive.
type Member struct {
	Name       string // without ./ and a slash at its end; "" for the root
	Dir        bool
	Link       bool // a symbolic or hard link; where it leads is not read
	Executable bool
	Content    io.Reader // of a file. Its error is an [*Error] if the archive is rejected.
}

// Reader reads the entries of an archive in their order. It checks their paths, and rejects
// devices.
type Reader struct {
	Limit int64              // bytes of the contents of all files
	Visit func(Member) error // reads the content before it returns

	names Names
	read  int64
}

// Zip reads a .zip of size bytes. Only its directory and the contents are read: the headers before
// the contents have no effect. An archive that is rejected has an [*Error], and other errors are
// those of in and of Visit.
func (r *Reader) Zip(in io.ReaderAt, size int64) error {
	z, err := open(in, size)
	if err != nil {
		return err
	}

	for _, f := range z.File {
		if err := r.zipped(f); err != nil {
			return err
		}
	}

	return nil
}

const encrypted = 1 << 0 // flag of an entry

func (r *Reader) zipped(f *zip.File) error {
	// Programs of Windows separate the segments of a path with backslashes, which a zip must not have.
	name := strings.ReplaceAll(f.Name, `\`, "/")
	dir := strings.HasSuffix(name, "/")
	mode := f.Mode()
	switch {
	case f.Flags&encrypted != 0:
		return &Error{f.Name, "is encrypted"}
	case mode&fs.ModeSymlink != 0:
		return r.entry(Member{Name: name, Link: true}, nil)
	case mode.Type() != 0 && mode.Type() != fs.ModeDir, mode.IsDir() && !dir:
		return &Error{f.Name, "is not a regular file"}
	case dir:
		return r.entry(Member{Name: name, Dir: true}, nil)
	}

	content, err := f.Open()
	if err != nil {
		return &Error{f.Name, "cannot be read: " + err.Error()}
	}

	defer func() { _ = content.Close() }() // it was opened for reading
	return r.entry(Member{Name: name, Executable: mode&0o111 != 0}, content)
}

// maxHeaders bounds the bytes of a tar in addition to the contents of its files.
const maxHeaders = 16 << 20

// TarGz reads a .tar.gz. Its errors are those of [Reader.Zip].
func (r *Reader) TarGz(in io.Reader) error {
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return notTar(err)
	}

	bounded := &io.LimitedReader{R: unpacked, N: r.Limit + maxHeaders}
	t := tar.NewReader(bounded)
	for entries := 0; ; entries++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return notTar(err)
		}

		if entries == MaxEntries {
			return tooMany()
		}

		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir:
			err = r.entry(Member{Name: h.Name, Dir: h.Typeflag == tar.TypeDir, Executable: h.Mode&0o111 != 0}, t)
		case tar.TypeXGlobalHeader: // git archive writes one
		case tar.TypeSymlink, tar.TypeLink:
			err = r.entry(Member{Name: h.Name, Link: true}, nil)
		default:
			err = &Error{h.Name, "is not a regular file"}
		}

		if err != nil {
			return err
		}
	}

	// The rest is padding and the checksum.
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return notTar(err)
	}

	if bounded.N == 0 {
		return &Error{Reason: fmt.Sprintf("the archive is larger than %d bytes unpacked", r.Limit+maxHeaders)}
	}

	return nil
}

func notTar(err error) error { return &Error{Reason: "the file is not a .tar.gz: " + err.Error()} }

// File reads an upload that is one file.
func (r *Reader) File(name string, in io.Reader) error {
	return r.entry(Member{Name: name}, in)
}

// entry visits an entry whose name is as the archive has it.
func (r *Reader) entry(e Member, content io.Reader) error {
	original := e.Name
	var err error
	if e.Name, err = r.names.Add(original, e.Dir); err != nil {
		return err
	}

	e.Content = &counted{r, original, content}
	return r.Visit(e)
}

// Linked returns the error of a link in a skill.
func Linked(name string) *Error { return &Error{name, "is a link"} }

// counted is the content of an entry.
type counted struct {
	reader *Reader
	entry  string
	in     io.Reader
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.reader.read += int64(n)
	switch {
	case c.reader.read > c.reader.Limit:
		return 0, &Error{c.entry, fmt.Sprintf("makes the content larger than %d bytes", c.reader.Limit)}
	case err != nil && err != io.EOF: //nolint:errorlint // Read returns it unwrapped
		err = &Error{c.entry, "cannot be read: " + err.Error()}
	}

	return n, err
}
