package hub

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/backup"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Backup writes the database and the files of tools and skills to a file with mode 0600, or to w if
// path is "". Hubs may serve the database in the meantime. programs are for PostgreSQL. The
// audit log has the backup when it is complete, so its own archive does not.
func (h *Hub) Backup(ctx context.Context, programs db.Programs, path string, w io.Writer) (backup.Manifest, error) {
	if h.cfg.Artifacts == nil {
		return backup.Manifest{}, errors.New("write backup: Config.Artifacts is required")
	}

	cfg := backupConfig(h.cfg, programs)
	cfg.Protect = h.protectArtifacts
	written, err := h.writeBackup(ctx, cfg, path, w)
	if err != nil {
		return written, err
	}

	if err := h.recordBackup(ctx, written); err != nil {
		return written, fmt.Errorf("record backup, which is complete: %w", err)
	}

	return written, nil
}

func (h *Hub) writeBackup(ctx context.Context, cfg backup.Config, path string, w io.Writer) (backup.Manifest, error) {
	if path == "" {
		return backup.Write(ctx, cfg, h.db, w)
	}

	return backup.WriteFile(ctx, cfg, h.db, path)
}

// Restore creates the database and the files of a hub from an archive of [Hub.Backup]. Of the
// configuration it reads DatabaseURL, EncryptionKeys, Artifacts, which is required, and Logger. The
// archive is checked before anything is written, and an existing database is not changed. A hub
// that is started afterwards migrates the database if the backup is one of an earlier version.
func Restore(ctx context.Context, cfg Config, programs db.Programs, archive *os.File) (backup.Manifest, error) {
	if cfg.Artifacts == nil {
		return backup.Manifest{}, errors.New("restore backup: Artifacts is required")
	}

	keyring, err := secret.Parse(cfg.EncryptionKeys...)
	if err != nil {
		return backup.Manifest{}, fmt.Errorf("read encryption keys: %w", err)
	}

	restore := backupConfig(cfg, programs)
	restore.Keyring = keyring
	return backup.Restore(ctx, restore, archive)
}

func backupConfig(cfg Config, programs db.Programs) backup.Config {
	return backup.Config{
		Database: db.Config{URL: cfg.DatabaseURL, Logger: cfg.Logger}, Programs: programs, Artifacts: cfg.Artifacts,
		Series: migrations(), Sealed: sealed(), Named: namedArtifacts, Version: cfg.Version, TempDir: cfg.TempDir, Now: cfg.Now,
	}
}

// namedArtifacts returns the keys of all artifacts that a database names.
func namedArtifacts(ctx context.Context, q db.Querier) ([]string, error) {
	components, err := catalog.ArtifactKeys(ctx, q)
	if err != nil {
		return nil, err
	}

	revisions, err := deployment.ArtifactKeys(ctx, q)
	return slices.Concat(components, revisions), err
}

// protectedRow is the row of the instance table with the time, in microseconds, until which no
// artifact is deleted.
const protectedRow = "artifacts_protected_until"

// protectArtifacts stores that no artifact may be deleted until a time, or until a later one that
// is stored. A transaction waits longer than a statement for a hub that writes to a SQLite file.
func (h *Hub) protectArtifacts(ctx context.Context, until time.Time) error {
	return h.db.Tx(ctx, func(tx *sql.Tx) error {
		return db.Exec(ctx, tx, "write protection", `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE
			SET value = CASE WHEN CAST(instance.value AS BIGINT) < CAST(excluded.value AS BIGINT) THEN excluded.value ELSE instance.value END`,
			protectedRow, fmt.Sprint(db.Micros(until)))
	})
}

// artifactsProtected reports whether a backup is being written.
func (h *Hub) artifactsProtected(ctx context.Context) (bool, error) {
	return db.Value[bool](ctx, h.db.Read(), "read protection of artifacts",
		`SELECT EXISTS (SELECT 1 FROM instance WHERE name = $1 AND CAST(value AS BIGINT) > $2)`, protectedRow, db.Micros(h.store.Now()))
}
