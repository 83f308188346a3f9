package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/secret"
)

// Config configures [New].
type Config struct {
	Driver    Driver          // Required.
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
// [ErrNotExist], api.Unavailable with advice for the user, or that of a context.
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
func (s *Store) Put(ctx context.Context, kind Kind, name string, r io.Reader) (Ref, error) {
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
func (s *Store) Open(ctx context.Context, ref Ref) (*Blob, error) {
	if err := ref.check(); err != nil {
		return nil, fmt.Errorf("open artifact: %w: %w", err, ErrNotExist)
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
				exist[i], errs[i] = err == nil && info.Size == refs[i].Size, ignore(err, ErrNotExist)
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
	switch {
	case errors.Is(err, ErrNotExist):
		return fmt.Errorf("%s: %w", op, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	}
	e := &api.Error{Code: api.Unavailable, RetryAfter: retryAfter, Cause: fmt.Errorf("%s: %w", op, err)}
	e.Message = "The store of files cannot be reached: try again. If it persists, an operator must check BLOB_URL and the log of the hub."
	if errors.Is(err, ErrFull) {
		e.Message = "The store of files is full: an operator must free space."
	}
	return e
}

// retryAfter is the time after which a request that the driver failed may succeed.
const retryAfter = 5 * time.Second
