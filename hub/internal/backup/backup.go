// Package backup writes the database and the artifacts of a hub to one file while the hub serves,
// and restores them.
//
//	m, err := backup.WriteFile(ctx, cfg, database, "/srv/backup/hub.tar")
//	...
//	m, err = backup.Restore(ctx, cfg, file)
//
// A backup is a tar archive without compression: a manifest, the artifacts, and a dump of the
// database. The [Manifest] has the versions of the hub and of the schema, the ids of the encryption
// keys, and the size and the SHA-256 of each member. The encryption keys are not in the backup, and
// without them its secrets are lost.
//
// The dump is one state of the database. The artifacts are those that this state names: they are
// stored under their hash and never change, and [Config.Protect] prevents that one is deleted
// before it has been read.
//
// Restore reads the whole archive and compares every size and hash before it writes anything. It
// writes only to names that it generates. It does not prove who made the archive: a user who can
// write a backup determines what the restored hub contains.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Config configures [Write] and [Restore].
type Config struct {
	Database  db.Config
	Artifacts blob.Driver
	Keyring   *secret.Keyring

	Series []db.Series    // migrations of the hub
	Sealed []store.Sealed // columns whose key ids the manifest has

	// Named returns the keys of all artifacts that a database names.
	Named func(ctx context.Context, q db.Querier) ([]string, error)

	// Protect stores that no artifact may be deleted until a time. Only Write calls it.
	Protect func(ctx context.Context, until time.Time) error

	Programs db.Programs // of PostgreSQL

	Version string // of the hub
	TempDir string // of the dump while it is written. Defaults to os.TempDir().
	Now     func() time.Time
}

// Protection of artifacts is extended while a backup is written. It ends by itself if the program
// is killed.
const (
	protection  = 15 * time.Minute
	extendEvery = time.Minute
)

// Write writes a backup of d to w.
func Write(ctx context.Context, cfg Config, d *db.DB, w io.Writer) (Manifest, error) {
	dump, err := os.CreateTemp(cfg.TempDir, "hub-backup-*.database") // with mode 0600
	if err != nil {
		return Manifest{}, fmt.Errorf("create temporary file: %w", err)
	}

	return cfg.write(ctx, d, dump, w)
}

// write writes a backup with the dump in an empty file, which it deletes.
func (cfg Config) write(ctx context.Context, d *db.DB, dump *os.File, w io.Writer) (m Manifest, err error) {
	if runtime.GOOS != "windows" { // a killed process leaves no file
		_ = os.Remove(dump.Name())
	}

	defer func() {
		err = errors.Join(err, dump.Close())
		_ = os.Remove(dump.Name()) // it may be removed already
	}()
	ctx, stop, err := cfg.protected(ctx)
	if err != nil {
		return m, err
	}
	defer stop()
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}()
	if m, err = cfg.dump(ctx, d, &pacedFile{ctx: ctx, file: dump}); err != nil {
		return m, err
	}

	if m.Database.Size, m.Database.SHA256, err = hashOf(ctx, dump); err != nil {
		return m, fmt.Errorf("read dump: %w", err)
	}

	return m, cfg.writeArchive(ctx, m, dump, w)
}

// protected protects all artifacts until the returned function is called. The context ends if the
// protection cannot be extended.
func (cfg Config) protected(ctx context.Context) (context.Context, func(), error) {
	protect := func() error { return db.Wrap("protect artifacts", cfg.Protect(ctx, cfg.Now().Add(protection))) }
	if err := protect(); err != nil {
		return nil, nil, err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(extendEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}

			if err := protect(); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); <-ended }, nil
}

// dump writes the dump, and returns the manifest without its size and hash.
func (cfg Config) dump(ctx context.Context, d *db.DB, w io.Writer) (Manifest, error) {
	m := Manifest{Version: formatVersion, Hub: cfg.Version, Created: cfg.Now().UTC().Truncate(time.Second), Engine: d.Engine(), Artifacts: []Artifact{}}
	var keys []string
	err := d.Dump(ctx, cfg.Programs, w, func(q db.Querier) (err error) {
		if m.Schema, err = db.Versions(ctx, q); err != nil {
			return err
		}

		if m.Keys, err = store.KeyIDs(ctx, q, cfg.Sealed...); err != nil {
			return err
		}

		keys, err = cfg.Named(ctx, q)
		return err
	})
	if err != nil {
		return m, err
	}

	sizes, err := cfg.sizes(ctx)
	if err != nil {
		return m, err
	}

	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		size, exists := sizes[key]
		if !exists {
			m.Missing = append(m.Missing, key)
			continue
		}

		m.Artifacts = append(m.Artifacts, Artifact{key, size})
	}

	return m, nil
}

// sizes returns the sizes of all artifacts.
func (cfg Config) sizes(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for _, kind := range []artifact.Purpose{artifact.Tools, artifact.Skills} {
		for info, err := range cfg.Artifacts.List(ctx, string(kind)+"/") {
			if err != nil {
				return nil, fmt.Errorf("list artifacts: %w", err)
			}

			sizes[info.Key] = info.Size
		}
	}

	return sizes, nil
}
