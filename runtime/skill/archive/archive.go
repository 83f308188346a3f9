// Package archive downloads skills as zip archives and unpacks them into a directory. An archive
// that was unpacked before is not downloaded again, so that links may expire.
//
//	load, err := archive.New("/var/lib/runtime/skills", nil)
//	if err != nil { ... }
//	dir, err := load(ctx, agent.SkillArchive{Name: "review", URL: link, Hash: "sha256:..."})
//
// An archive is trusted no more than its hash: it is at most 20 MiB, and 100 MiB unpacked, with at
// most 2,000 entries in 32 levels, all of which are regular files and directories below the root.
package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/internal/skillzip"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	loadTimeout = 30 * time.Second
	unusedFor   = 30 * 24 * time.Hour // until an archive is deleted
	staleAfter  = time.Hour           // for the temporary files of a process that was killed
	temporary   = ".new-"
)

// store is a directory of unpacked archives, by their hash. Several processes may use it.
type store struct {
	dir  string
	http *http.Client
}

// New returns the function that returns the directory of a skill. It downloads and unpacks the
// archive if the directory does not have it, with client, or without a proxy if that is nil. The
// directory is created if it does not exist, for this user only, and several processes may use it.
// New deletes archives that were not loaded for 30 days.
func New(dir string, client *http.Client) (func(context.Context, agent.SkillArchive) (string, error), error) {
	if dir == "" {
		return nil, errors.New("make skill store: the directory is required")
	}

	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("make skill store: %w", err)
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make skill store: %w", err)
	}

	s := &store{dir: dir, http: client}
	if s.http == nil {
		s.http = &http.Client{Transport: outbound.Transport()}
	}

	if err := s.sweep(time.Now()); err != nil {
		return nil, err
	}

	return s.get, nil
}

func (s *store) sweep(now time.Time) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("make skill store: %w", err)
	}

	for _, e := range entries {
		limit := unusedFor
		if strings.HasPrefix(e.Name(), temporary) {
			limit = staleAfter
		}

		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > limit {
			_ = os.RemoveAll(filepath.Join(s.dir, e.Name())) // the next start tries again
		}
	}

	return nil
}

// get is load within a time, with an error that names the skill.
func (s *store) get(ctx context.Context, def agent.SkillArchive) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	dir, err := s.load(ctx, def)
	if err != nil {
		return "", fmt.Errorf("load skill %s: %w", def.Name, err)
	}

	return dir, nil
}

func (s *store) load(ctx context.Context, def agent.SkillArchive) (string, error) {
	sum, err := hex.DecodeString(strings.TrimPrefix(def.Hash, "sha256:"))
	if err != nil || len(sum) != sha256.Size || !strings.HasPrefix(def.Hash, "sha256:") {
		return "", errors.New("its hash is not sha256: and 64 hex digits")
	}

	if !filepath.IsLocal(def.Name) || strings.ContainsAny(def.Name, `/\`) || def.Name == "." {
		return "", errors.New("its name is not that of a directory")
	}

	parent := filepath.Join(s.dir, hex.EncodeToString(sum))
	dir := filepath.Join(parent, def.Name)
	now := time.Now()
	if _, err := os.Stat(dir); err == nil {
		_ = os.Chtimes(parent, now, now) // otherwise it is downloaded again some day
		return dir, nil
	}

	work, err := os.MkdirTemp(s.dir, temporary)
	if err != nil {
		return "", err
	}

	defer func() { _ = os.RemoveAll(work) }() // the next New tries again
	packed := filepath.Join(work, "packed")
	if err := s.download(ctx, def, packed); err != nil {
		return "", err
	}

	unpacked := filepath.Join(work, "unpacked")
	if err := unpack(ctx, packed, unpacked); err != nil {
		return "", fmt.Errorf("unpack archive: %w", err)
	}

	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}

	if err := os.Rename(unpacked, dir); err != nil {
		if _, other := os.Stat(dir); other == nil {
			return dir, nil // another process was faster
		}

		return "", err
	}

	return dir, nil
}

// download writes the archive to a file and verifies its hash.
func (s *store) download(ctx context.Context, def agent.SkillArchive, path string) error {
	at, err := url.Parse(def.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return errors.New("its url is not an http or https address")
	}

	where := at.Scheme + "://" + at.Host + at.Path // without the query, which can be a signature
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, def.URL, nil)
	if err != nil {
		return errors.New("its url is not an http or https address")
	}

	resp, err := s.http.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}

		return fmt.Errorf("get %s: %w", where, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: status %s", where, resp.Status)
	}

	hash, err := save(path, resp.Body)
	if err != nil {
		return fmt.Errorf("get %s: %w", where, err)
	}

	if hash != def.Hash {
		return fmt.Errorf("get %s: the hash is %s, want %s", where, hash, def.Hash)
	}

	return nil
}

// save writes at most skillzip.MaxPacked bytes to a new file and returns their hash.
func save(path string, from io.Reader) (string, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}

	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(from, skillzip.MaxPacked+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}

	if n > skillzip.MaxPacked {
		return "", fmt.Errorf("the archive is larger than %d bytes", skillzip.MaxPacked)
	}

	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}
