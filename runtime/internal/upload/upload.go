// Package upload stores the files that clients send before the run that uses them. The id of a file
// is the digest of its name, its type and its bytes: the same file has one id and is stored once.
// A run copies the bytes into its session, so that a file need not outlive the run.
package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/filelock"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/runtime/wire"
)

var (
	// ErrUnknown is returned by Open if no file has the id, or if it has expired.
	ErrUnknown = errors.New("upload is unknown")
	// ErrFull is returned by Put if the store has reached one of its bounds.
	ErrFull = errors.New("there are too many uploads")
)

const (
	// TTL is the time for which a file can be used after it was last sent.
	TTL = 24 * time.Hour
	// MaxFiles bounds the files of a store.
	MaxFiles = 10_000

	// grace is the time after TTL until a file is removed: Put extends the time of a file that another
	// process may be about to remove.
	grace = time.Hour
	// partTTL is the time after which the rest of an interrupted Put is removed.
	partTTL       = time.Hour
	sweepInterval = time.Hour
	partSuffix    = ".part"
)

// Config configures a [Store].
type Config struct {
	// Dir is created if it is missing. Several processes may use it. If it is empty, the first Put
	// creates a directory that Close removes.
	Dir string
	// MaxBytes bounds all files together.
	MaxBytes int64
	Logger   *slog.Logger
}

// Store stores files. It is safe for concurrent use.
type Store struct {
	cfg   Config
	stop  context.CancelFunc // ends the sweep
	swept sync.WaitGroup

	mu      sync.Mutex // guards the field below, and is held by those that add or remove files
	root    *os.Root   // nil before the first Put of a private directory
	private string     // the directory that Close removes
}

// File describes a file. Its JSON is the first line of the stored file, before the bytes.
type File struct {
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
}

// New opens a store. The caller must call Close.
func New(cfg Config) (*Store, error) {
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{cfg: cfg, stop: stop}
	if cfg.Dir != "" {
		if err := s.open(cfg.Dir); err != nil {
			stop()
			return nil, fmt.Errorf("open uploads: %w", err)
		}

		s.swept.Go(func() { s.sweepUntil(ctx) })
	}

	return s, nil
}

func (s *Store) open(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		s.root, err = os.OpenRoot(dir)
	}

	return err
}

// Close ends the sweep and releases the directory.
func (s *Store) Close() error {
	s.stop()
	s.swept.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return nil
	}

	err := s.root.Close()
	if s.private != "" {
		err = errors.Join(err, os.RemoveAll(s.private))
	}

	return err
}

// Put stores a file. The file survives a crash of the machine when Put returns.
func (s *Store) Put(f File, data []byte) (wire.Upload, error) {
	head, err := json.Marshal(f)
	if err != nil {
		return wire.Upload{}, fmt.Errorf("encode upload: %w", err)
	}

	head = append(head, '\n')
	digest := sha256.New()
	_, _ = digest.Write(head) // a hash takes all bytes
	_, _ = digest.Write(data)
	id := hex.EncodeToString(digest.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		if s.private, err = os.MkdirTemp("", "agenthost-uploads-"); err == nil {
			err = s.open(s.private)
		}
	}

	if err == nil {
		err = s.add(id, head, data)
	}

	if err != nil {
		return wire.Upload{}, fmt.Errorf("store upload: %w", err)
	}

	sum := sha256.Sum256(data)
	return wire.Upload{ID: id, Name: f.Name, MediaType: f.MediaType, Size: len(data), SHA256: hex.EncodeToString(sum[:])}, nil
}

// add stores a file, or extends the time of the stored one. The caller holds mu.
func (s *Store) add(id string, head, data []byte) error {
	size := int64(len(head) + len(data))
	now := time.Now()
	info, err := s.root.Lstat(id)
	if err == nil && info.Size() == size && now.Sub(info.ModTime()) < TTL && s.root.Chtimes(id, now, now) == nil {
		return nil
	}

	files, total, err := s.sweep()
	if err != nil {
		return err
	}

	if files >= MaxFiles || total+size > s.cfg.MaxBytes {
		return ErrFull
	}

	part := ids.New() + partSuffix
	file, err := s.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL|filelock.OpenFlags, 0o600)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, io.MultiReader(bytes.NewReader(head), bytes.NewReader(data)))
	err = errors.Join(err, file.Sync())
	if err = errors.Join(err, file.Close()); err == nil {
		err = s.root.Rename(part, id)
	}

	if err != nil {
		return errors.Join(err, s.root.Remove(part))
	}

	if folder, err := s.root.Open("."); err == nil { // not every system can sync a folder
		_ = folder.Sync()
		_ = folder.Close()
	}

	return nil
}

var idForm = pattern.Compile(`^[0-9a-f]{64}$`)

// Open returns a file and its bytes. It calls hold with the number of bytes before it reads them.
func (s *Store) Open(id string, hold func(bytes int) error) (File, []byte, error) {
	var f File
	s.mu.Lock()
	root := s.root
	s.mu.Unlock()
	if root == nil || !idForm().MatchString(id) {
		return f, nil, ErrUnknown
	}

	file, err := root.OpenFile(id, os.O_RDONLY|filelock.OpenFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, ErrUnknown
	}

	if err != nil {
		return f, nil, fmt.Errorf("open upload: %w", err)
	}

	defer func() { _ = file.Close() }() // read-only
	info, err := file.Stat()
	if err != nil {
		return f, nil, fmt.Errorf("open upload: %w", err)
	}

	if !info.Mode().IsRegular() || time.Since(info.ModTime()) >= TTL {
		return f, nil, ErrUnknown
	}

	if err := hold(int(info.Size())); err != nil {
		return f, nil, err
	}

	text := make([]byte, info.Size())
	if _, err := io.ReadFull(file, text); err != nil {
		return f, nil, fmt.Errorf("read upload: %w", err)
	}

	digest := sha256.Sum256(text)
	head, data, _ := bytes.Cut(text, []byte{'\n'})
	if hex.EncodeToString(digest[:]) != id || json.Unmarshal(head, &f) != nil {
		s.cfg.Logger.Warn("an upload is damaged and will be removed", "id", id)
		_ = root.Remove(id) // it may be sent again
		return f, nil, ErrUnknown
	}

	return f, data, nil
}

// sweepUntil removes expired files until ctx ends.
func (s *Store) sweepUntil(ctx context.Context) {
	for {
		s.mu.Lock()
		_, _, err := s.sweep()
		s.mu.Unlock()
		if err != nil {
			s.cfg.Logger.Warn("cannot remove expired uploads", "err", err)
		}

		timer := time.NewTimer(sweepInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// sweep removes expired files. It returns the number of the others, and their bytes. The caller
// holds mu.
func (s *Store) sweep() (int, int64, error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return 0, 0, err
	}

	files, total := 0, int64(0)
	for _, e := range entries {
		part := strings.HasSuffix(e.Name(), partSuffix)
		if !part && !idForm().MatchString(e.Name()) { // not of this store
			continue
		}

		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() { // an error means that another process has removed it
			continue
		}

		limit := TTL + grace
		if part {
			limit = partTTL
		}

		if time.Since(info.ModTime()) < limit {
			files++
			total += info.Size()
			continue
		}

		if err := s.root.Remove(e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, err
		}
	}

	return files, total, nil
}
