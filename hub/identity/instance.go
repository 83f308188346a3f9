package identity

import (
	"context"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/db"
)

// Rows of the instance table. Those of setup tokens have names of their own.
const (
	instanceID = "id"      // of the hub, the issuer of access tokens
	storageRow = "storage" // the local storage of the hub that started last
)

// ReplaceStorage stores the id of the local storage of this hub. It returns that of the hub that
// started before, or "" if this is the first.
func (s *Service) ReplaceStorage(ctx context.Context, id string) (former string, err error) {
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		former, err = replaceInstance(ctx, tx, storageRow, id)
		return err
	})
	return former, db.Wrap("replace storage id", err)
}
