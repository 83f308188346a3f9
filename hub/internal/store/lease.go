package store

import (
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/internal/db"
)

// LeaseTime is how long the row of a run in progress is valid whose hub no longer renews its lease,
// the column alive_until. Replicas may differ by a few seconds in their clocks.
const LeaseTime = 15 * time.Second

// Expired returns a condition of SQL for rows whose leases have passed. Its placeholders begin
// with the number next, and their arguments are the results of [Expiry]. A lease that ends much
// later was taken by a clock that was wrong, and has passed.
func Expired(next int) string {
	return fmt.Sprintf("(alive_until < $%d OR alive_until > $%d)", next, next+1)
}

// Expiry returns the arguments of [Expired], in microseconds.
func Expiry(now time.Time) (past, future int64) {
	return db.Micros(now), db.Micros(now.Add(2 * LeaseTime))
}
