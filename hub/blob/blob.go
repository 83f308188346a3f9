// Package blob defines where the files of tools and skills are: in a [Folder], in [Memory], or in a
// bucket of S3 with the package s3blob.
//
//	files, err := blob.OpenFolder("/var/lib/hub/blobs")
//	if err != nil { ... }
//	h, err := hub.New(ctx, hub.Config{Artifacts: files})
//
// Package blobtest has the tests that every [Driver] passes.
package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"time"
)

// Driver is where blobs are. It is safe for concurrent use. Keys are paths of three elements, a
// purpose, a hash and a name, such as "tools/9f86.../weather.ts". The error for a key without a
// blob is [fs.ErrNotExist], and for a driver without space [ErrFull].
type Driver interface {
	// Put stores size bytes of content, from its current position. Readers find the blob only when
	// it is complete and durable. An existing blob gets the new content and time of modification.
	Put(ctx context.Context, key string, content io.ReadSeeker, size int64) error

	// Open opens a blob for reading. The context applies until the blob is closed.
	Open(ctx context.Context, key string) (*Blob, error)

	// Stat returns the size and the time of modification of a blob.
	Stat(ctx context.Context, key string) (Info, error)

	// Delete deletes a blob unless it was modified at or after unmodifiedSince. Such a blob and one
	// that does not exist are not errors.
	Delete(ctx context.Context, key string, unmodifiedSince time.Time) error

	// List returns all blobs whose keys begin with prefix, in any order.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Link returns an address that serves the blob without other credentials until expires. The
	// error is [errors.ErrUnsupported] if the driver cannot be reached by clients: the store then
	// signs an address of the hub.
	Link(ctx context.Context, key string, expires time.Time) (string, error)
}

// Info describes a blob.
type Info struct {
	Key      string
	Size     int64 // bytes
	Modified time.Time
}

// Blob is an open blob.
type Blob struct {
	Info
	Content io.ReadSeekCloser // an *os.File if the driver has one
}

// Close closes the content.
func (b *Blob) Close() error { return b.Content.Close() }

// Errors of drivers.
var (
	ErrNotExist = fs.ErrNotExist
	ErrFull     = errors.New("no space is left")
)
