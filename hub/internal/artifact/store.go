// Package artifact stores the files of tools and skills under the hash of their content.
//
// A [Store] puts a file under the key tools/HASH/NAME or skills/HASH/NAME, where HASH is the
// SHA-256 of the content in hex. The blob exists before the row that names it, several rows may
// name it, and no row is needed to read it. A blob is never deleted with a row: [Store.Sweep]
// deletes the blobs that no row has named for some time.
//
//	ref, err := files.Put(ctx, artifact.Tools, "weather.ts", body)
//	blob, err := files.Open(ctx, ref)
//
// A [blob.Driver] contains the blobs.
package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/diskspace"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Config configures [New].
type Config struct {
	Driver    blob.Driver     // Required.
	Keyring   *secret.Keyring // signs links. Required.
	PublicURL string          // address of the hub, without a trailing slash; the base of links

	// CDN is the address below which the keys of tools are served. Defaults to /artifacts below
	// PublicURL.
	CDN string

	// TempDir is the directory of uploads that are not complete. Defaults to os.TempDir().
	TempDir string

	Now func() time.Time // Defaults to time.Now.
}

// Store stores files by the hash of their content. It is safe for concurrent use. Its errors are
// [blob.ErrNotExist], wire.Unavailable with advice for the user, or that of a context.
type Store struct{ cfg Config }

// New returns a store on a driver.
func New(cfg Config) (*Store, error) {
	if cfg.Driver == nil || cfg.Keyring == nil {
		return nil, errors.New("create artifact store: Driver and Keyring are required")
	}

	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	if cfg.CDN == "" {
		cfg.CDN = cfg.PublicURL + routePrefix
	}

	cfg.CDN = strings.TrimRight(cfg.CDN, "/")
	return &Store{cfg}, nil
}

// Put stores everything that r returns. The blob exists when Put returns.
func (s *Store) Put(ctx context.Context, kind Purpose, name string, r io.Reader) (Ref, error) {
	u, err := s.NewUpload()
	if err != nil {
		return Ref{}, err
	}

	defer func() { _ = u.Close() }() // the content is in the driver, or err is returned
	if _, err := u.ReadFrom(r); err != nil {
		return Ref{}, err
	}

	return u.Commit(ctx, kind, name)
}

// Open opens a file for reading.
func (s *Store) Open(ctx context.Context, ref Ref) (*blob.Blob, error) {
	if err := ref.check(); err != nil {
		return nil, fmt.Errorf("open artifact: %w: %w", err, blob.ErrNotExist)
	}

	b, err := s.cfg.Driver.Open(ctx, ref.Key())
	if err != nil {
		return nil, s.failed("open artifact", err)
	}

	return b, nil
}

// statsAtOnce bounds the concurrent requests of one call of Exist.
const statsAtOnce = 16

// Exist reports for each file whether its blob exists and has the size of the ref.
func (s *Store) Exist(ctx context.Context, refs ...Ref) ([]bool, error) {
	exist, errs := make([]bool, len(refs)), make([]error, len(refs))
	next := make(chan int)
	var all sync.WaitGroup
	for range min(statsAtOnce, len(refs)) {
		all.Go(func() {
			for i := range next {
				if refs[i].check() != nil {
					continue
				}

				info, err := s.cfg.Driver.Stat(ctx, refs[i].Key())
				exist[i] = err == nil && info.Size == refs[i].Size
				if !errors.Is(err, blob.ErrNotExist) {
					errs[i] = err
				}
			}
		})
	}

	for i := range refs {
		next <- i
	}

	close(next)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, s.failed("find artifact", err)
		}
	}

	return exist, nil
}

// URL returns the address of a tool, which requires no credential.
func (s *Store) URL(ref Ref) string { return s.cfg.CDN + "/" + escape(ref) }

// escape returns the key as a part of a URL.
func escape(ref Ref) string {
	return string(ref.Kind) + "/" + ref.Hash + "/" + url.PathEscape(ref.Name)
}

// failed converts an error of a driver or a disk to one of the store.
func (s *Store) failed(op string, err error) error {
	if diskspace.IsFull(err) {
		err = fmt.Errorf("%w: %w", blob.ErrFull, err)
	}

	switch {
	case errors.Is(err, blob.ErrNotExist):
		return fmt.Errorf("%s: %w", op, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	}

	e := &wire.Error{Code: wire.Unavailable, RetryAfter: retryAfter, Cause: fmt.Errorf("%s: %w", op, err)}
	e.Message = "The store of files cannot be reached: try again. If it persists, an operator must check BLOB_URL and the log of the hub."
	if errors.Is(err, blob.ErrFull) {
		e.Message = "The store of files is full: an operator must free space."
	}

	return e
}

// retryAfter is the time after which a request that the driver failed may succeed.
const retryAfter = 5 * time.Second

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
		return nil, s.failed("create temporary file", err)
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
		err = u.store.failed("write temporary file", err)
	}

	return n, err
}

// ReadFrom appends everything that r returns. If r is the body of a request whose client
// disconnects, the error is wire.InvalidRequest.
func (u *Upload) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(struct{ io.Writer }{u}, r)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = &wire.Error{Code: wire.InvalidRequest, Message: "The upload ended before its end: send it again.", Cause: err}
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
func (u *Upload) Commit(ctx context.Context, kind Purpose, name string) (Ref, error) {
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
		err = errors.Join(err, os.RemoveAll(u.file.Name()))
	}

	return err
}

// Referenced reports which of some keys a row names. A key that is missing in the result is not
// named.
type Referenced func(ctx context.Context, keys []string) (map[string]bool, error)

// sweepBatch is the number of keys of one call of Referenced.
const sweepBatch = 500

// Sweep deletes the blobs that are older than grace and that no row names, and returns their
// number. The age is that of the last upload, by the clock of the driver, so that content that is
// uploaded while Sweep runs is not deleted. A caller that inserts a row confirms with [Store.Exist]
// afterwards that the blob is still there, and commits the upload again if it is not: on S3 a blob
// can be deleted in the moment in which it is uploaded.
func (s *Store) Sweep(ctx context.Context, grace time.Duration, referenced Referenced) (int, error) {
	before := s.cfg.Now().Add(-grace)
	var batch []string
	var deleted int
	flush := func() error {
		named, err := referenced(ctx, batch)
		if err != nil {
			return err
		}

		for _, key := range batch {
			if named[key] {
				continue
			}

			if err := s.cfg.Driver.Delete(ctx, key, before); err != nil {
				return s.failed("delete artifact", err)
			}

			deleted++
		}

		batch = batch[:0]
		return nil
	}
	for _, kind := range []Purpose{Tools, Skills} {
		for info, err := range s.cfg.Driver.List(ctx, string(kind)+"/") {
			if err != nil {
				return deleted, s.failed("list artifacts", err)
			}

			// Files that the store did not create are not touched.
			if _, ok := ParseKey(info.Key); !ok || !info.Modified.Before(before) {
				continue
			}

			if batch = append(batch, info.Key); len(batch) == sweepBatch {
				if err := flush(); err != nil {
					return deleted, err
				}
			}
		}
	}

	var err error
	if len(batch) > 0 {
		err = flush()
	}

	return deleted, err
}
