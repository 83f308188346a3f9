package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed93082962/agenthost/internal/db"
)

// Restore creates the database and the artifacts from the archive. Nothing is written unless the
// archive is complete and of a version that this program reads, the keyring has all of its keys,
// and the database does not exist. The database comes last: a restore that was interrupted can be
// repeated.
func Restore(ctx context.Context, cfg Config, archive *os.File) (Manifest, error) {
	m, err := cfg.verify(ctx, archive)
	if err != nil {
		return m, err
	}

	if err := db.CheckEmpty(ctx, cfg.Database); err != nil {
		return m, err
	}

	return readArchive(archive, func(Manifest) error { return nil }, func(key string, content *io.SectionReader, hash string) error {
		if key == "" {
			return db.Load(ctx, cfg.Database, cfg.Programs, newVerified(ctx, content, hash))
		}

		if err := cfg.Artifacts.Put(ctx, key, content, content.Size()); err != nil {
			return fmt.Errorf("store artifact: %w", err)
		}

		return nil
	})
}

// verify reads the whole archive.
func (cfg Config) verify(ctx context.Context, archive *os.File) (Manifest, error) {
	return readArchive(archive, cfg.check, func(key string, content *io.SectionReader, hash string) error {
		_, err := io.Copy(io.Discard, newVerified(ctx, content, hash))
		if errors.Is(err, errHash) {
			return fmt.Errorf("%w: %s: %w", errFormat, cmp.Or(key, databaseName), err)
		}

		return err
	})
}

// check returns an error if a backup cannot be restored with the settings.
func (cfg Config) check(m Manifest) error {
	engine, err := db.EngineOf(cfg.Database.URL)
	if err != nil {
		return err
	}

	if m.Engine != engine {
		return fmt.Errorf("the backup is one of %s, and the database that is configured is %s: restore it to the same engine", m.Engine, engine)
	}

	if err := db.Known(engine, m.Schema, cfg.Series...); err != nil {
		return fmt.Errorf("the backup was made by hub %s: %w", m.Hub, err)
	}

	for _, id := range m.Keys {
		if !cfg.Keyring.Has(id) {
			return fmt.Errorf("secrets of the backup are encrypted with the key %s, which is not configured: configure the key of the former hub, first or after the present one", id)
		}
	}

	return nil
}
