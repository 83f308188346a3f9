package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// Free is a condition of SQL for the rows of a table with the column hub_id that no hub owns.
const Free = `hub_id NOT IN (SELECT id FROM hubs)`

// ErrRemoved is the error of a change by a hub that another one has removed. It joins again within
// a second.
var ErrRemoved = &wire.Error{
	Code: wire.Unavailable, RetryAfter: time.Second, Cause: fmt.Errorf("another hub has removed this one, which was silent: %w", db.ErrUnavailable),
}

// Own begins a change of rows that this hub owns: the hub is not removed before the end of the
// transaction. It fails with [ErrRemoved]. PostgreSQL ends the transaction of a hub that is
// suspended, so that it is removed soon afterwards.
func (s *Store) Own(ctx context.Context, tx *sql.Tx) error {
	_, err := db.Value[string](ctx, tx, "read hub", `SELECT hub FROM `+s.Owner(1)+` AS owner`, s.HubID)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrRemoved
	}

	return err
}

// Owner is a table of SQL with the hub whose id is the argument of the placeholder, or without a
// row if it is removed. A row that a statement joins with it is changed as after Own.
func (s *Store) Owner(placeholder int) string {
	n := strconv.Itoa(placeholder)
	if s.DB.Engine() == db.PostgreSQL { // a beat does not wait for this lock, and a removal does
		return `(SELECT id AS hub, set_config('idle_in_transaction_session_timeout', '4s', true) FROM hubs WHERE id = $` + n + ` FOR KEY SHARE)`
	}

	return `(SELECT id AS hub FROM hubs WHERE id = $` + n + `)`
}

// readHubs returns the beats of all hubs.
func readHubs(ctx context.Context, q db.Querier) (map[string]int64, error) {
	beats := map[string]int64{}
	_, err := db.Collect(ctx, q, "read hubs", func(row db.Scanner) (id string, err error) {
		var beat int64
		err = row.Scan(&id, &beat)
		beats[id] = beat
		return id, err
	}, `SELECT id, beat FROM hubs`)
	return beats, err
}

func insertHub(ctx context.Context, q db.Querier, id string, beat int64) error {
	return db.Exec(ctx, q, "insert hub", `INSERT INTO hubs (id, beat) VALUES ($1, $2)`, id, beat)
}

// renewHub sets the beat of a hub. It has no effect if the hub is no longer in the table.
func renewHub(ctx context.Context, q db.Querier, id string, beat int64) error {
	return db.Exec(ctx, q, "renew hub", `UPDATE hubs SET beat = $2 WHERE id = $1`, id, beat)
}

// removeOthers removes all other hubs.
func removeOthers(ctx context.Context, q db.Querier, id string) error {
	return db.Exec(ctx, q, "remove former hubs", `DELETE FROM hubs WHERE id <> $1`, id)
}

// removeHub removes a hub with a beat. It does not wait for one that makes a change.
func removeHub(ctx context.Context, d *db.DB, id string, beat int64) (bool, error) {
	query := `SELECT id FROM hubs WHERE id = $1 AND beat = $2`
	if d.Engine() == db.PostgreSQL {
		query += ` FOR UPDATE SKIP LOCKED`
	}

	n, err := db.Affected(ctx, d.Write(), "remove hub", `DELETE FROM hubs WHERE id IN (`+query+`)`, id, beat)
	return n == 1, err
}

func deleteHub(ctx context.Context, q db.Querier, id string) error {
	return db.Exec(ctx, q, "delete hub", `DELETE FROM hubs WHERE id = $1`, id)
}

// leaveWithin bounds the time in which a hub that ends leaves.
const leaveWithin = 2 * time.Second
