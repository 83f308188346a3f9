package sqlaudit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
)

// benchByHand is what one would write without this package: a transaction for each entry, which
// takes the next id from a row of the tenant and inserts, into a table with the same columns and a
// primary key, without chain, positions and other indexes.
func benchByHand(b *testing.B, d *db.DB) {
	for _, step := range []string{
		"CREATE TABLE hand AS SELECT * FROM audit_entries WHERE 1 = 0", "CREATE UNIQUE INDEX hand_id ON hand (tenant, id)",
		"CREATE TABLE hand_heads (tenant BIGINT PRIMARY KEY, id BIGINT NOT NULL)", "INSERT INTO hand_heads VALUES (1, 0)",
	} {
		_, err := d.Write().Exec(step)
		require.NoError(b, err)
	}
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("by hand/goroutines=%d", n), func(b *testing.B) {
			concurrently(b, n, func(*rand.Rand) error { return insertByHand(b.Context(), d) })
		})
	}
}

func insertByHand(ctx context.Context, d *db.DB) error {
	tx, err := d.Write().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var id int64
	if err := tx.QueryRowContext(ctx, "UPDATE hand_heads SET id = id + 1 WHERE tenant = $1 RETURNING id", 1).Scan(&id); err != nil {
		return err
	}
	e := event("t", 1)
	_, err = tx.ExecContext(ctx, `INSERT INTO hand
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		1, id, time.Now().UnixMicro(), 1, id, 2, id, 3, e.TargetType, e.TargetID, e.TargetName, "success",
		`{"role":{"from":"member","to":"admin"}}`, e.RemoteIP, e.UserAgent, make([]byte, 32))
	if err != nil {
		return err
	}
	return tx.Commit()
}
