package hub

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/hub/internal/backup"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/meter"
)

// backupRow is the row of the instance table with the time, in microseconds, at which the last
// complete backup was written.
const backupRow = "backup_written_at"

// backupEvery is the interval in which a hub with metrics reads the time of the last backup, which
// another process writes.
const backupEvery = time.Minute

// recordBackup stores the time of a complete backup, and its entry of the audit log.
func (h *Hub) recordBackup(ctx context.Context, m backup.Manifest) error {
	return h.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		tx.Record(actionBackup.Record(h.byOperator(), backupDetail{DatabaseSHA256: m.Database.SHA256, Artifacts: len(m.Artifacts)}))
		return db.Exec(ctx, tx, "store the time of the backup", `INSERT INTO instance (name, value) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, backupRow, strconv.FormatInt(db.Micros(tx.Now), 10))
	})
}

// followBackups makes the gauge of the last backup, and reads its time until ctx ends.
func (h *Hub) followBackups(ctx context.Context) error {
	if h.cfg.MeterProvider == nil {
		return nil
	}

	var last atomic.Int64
	m := meter.New(h.cfg.MeterProvider, "github.com/seed93082962/agenthost/hub")
	gauge := m.Gauge("agenthost.hub.backup.last.timestamp", "Time of the last complete backup, since 1970; 0 if there was none.", "s")
	stop := m.Observe(func(o metric.Observer) { o.ObserveFloat64(gauge, float64(last.Load())/1e6) }, gauge)
	if err := m.Err(); err != nil {
		return err
	}

	h.running.Go(func() {
		defer stop()
		tick := time.NewTicker(backupEvery)
		defer tick.Stop()
		for {
			at, err := db.Value[int64](ctx, h.db.Read(), "read the time of the last backup",
				`SELECT COALESCE(MAX(CAST(value AS BIGINT)), 0) FROM instance WHERE name = $1`, backupRow)
			if err == nil { // otherwise the former time remains
				last.Store(at)
			}

			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}
