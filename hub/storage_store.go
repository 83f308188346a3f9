package hub

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
)

// storageRow is the row of the instance table with the local storage of the hub that started last.
const storageRow = "storage"

// replaceStorage stores the id of the local storage of this hub. It returns that of the hub that
// started before, or "" if this is the first.
func (h *Hub) replaceStorage(ctx context.Context, id string) (string, error) {
	var former string
	err := h.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT value FROM instance WHERE name = $1`, storageRow).Scan(&former)
		if err != nil && !errors.Is(err, sql.ErrNoRows) || former == id {
			return err
		}

		_, err = tx.ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, storageRow, id)
		return err
	})
	return former, db.Wrap("replace storage id", err)
}

// checkStorage warns if the hub that started before had another storage. It is not an error: the
// directory may have been replaced.
func (h *Hub) checkStorage(ctx context.Context) error {
	if h.cfg.StorageID == "" {
		return nil
	}

	former, err := h.replaceStorage(ctx, h.cfg.StorageID)
	if err == nil && former != "" && former != h.cfg.StorageID {
		h.cfg.Logger.Warn("the hub that started before on this database has another data directory, whose files and running agents " +
			"are not available to this one: all hubs need the same directory, or shared storage and no process deployer")
	}

	return err
}
