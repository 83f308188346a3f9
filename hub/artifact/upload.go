package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"

	"github.com/seed93082962/agenthost/hub/api"
)

// Upload is content that was received and is not stored yet. It is in a temporary file, so that it
// can be checked before it is stored, with little memory. It is not safe for concurrent use.
type Upload struct {
	store *Store
	file  *os.File
	hash  hash.Hash
	size  int64
}

// NewUpload returns an empty upload. The caller writes the content to it and closes it.
func (s *Store) NewUpload() (*Upload, error) {
	file, err := os.CreateTemp(s.cfg.TempDir, "artifact-*") // with mode 0600
	if err != nil {
		return nil, s.failed("create temporary file", full(err))
	}
	if runtime.GOOS != "windows" { // a killed process leaves no file
		_ = os.Remove(file.Name()) // Close removes it otherwise
	}
	return &Upload{store: s, file: file, hash: sha256.New()}, nil
}

// Write appends to the content.
func (u *Upload) Write(p []byte) (int, error) {
	n, err := u.file.Write(p)
	u.hash.Write(p[:n])
	u.size += int64(n)
	if err != nil {
		err = u.store.failed("write temporary file", full(err))
	}
	return n, err
}

// ReadFrom appends everything that r returns. If r is the body of a request whose client
// disconnects, the error is api.InvalidRequest.
func (u *Upload) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(struct{ io.Writer }{u}, r)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = &api.Error{Code: api.InvalidRequest, Message: "The upload ended before its end: send it again.", Cause: err}
	}
	return n, err
}

// Hash returns the SHA-256 of the content in hex.
func (u *Upload) Hash() string { return hex.EncodeToString(u.hash.Sum(nil)) }

// Size returns the length of the content in bytes.
func (u *Upload) Size() int64 { return u.size }

// Content returns a new reader of the content.
func (u *Upload) Content() *io.SectionReader { return io.NewSectionReader(u.file, 0, u.size) }

// Commit stores the content under its hash and the name. It may be called again, also for a blob
// that exists: [Store.Sweep] does not delete it for the grace period after that.
func (u *Upload) Commit(ctx context.Context, kind Kind, name string) (Ref, error) {
	ref := Ref{kind, u.Hash(), name, u.size}
	if err := ref.check(); err != nil {
		return Ref{}, fmt.Errorf("store artifact: %w", err)
	}
	if err := u.store.cfg.Driver.Put(ctx, ref.Key(), u.Content(), u.size); err != nil {
		return Ref{}, u.store.failed("store artifact", err)
	}
	return ref, nil
}

// Close deletes the temporary file.
func (u *Upload) Close() error {
	err := u.file.Close()
	if runtime.GOOS == "windows" {
		err = errors.Join(err, ignore(os.Remove(u.file.Name()), ErrNotExist))
	}
	return err
}
