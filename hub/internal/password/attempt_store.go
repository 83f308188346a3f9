package password

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/internal/db"
)

// Failed attempts are counted by account and address, before a tenant is known: the account is the
// submitted name.

// attemptTimes are the times, in microseconds, of the failures that limit an attempt: the fifth
// last one of the account from the address, and the first of the windows of the account, the
// network and the device. 0 means that there is no limit.
type attemptTimes struct {
	address, account, network, device int64
}

// readTimes reads the failures that limit an attempt.
func readTimes(ctx context.Context, q db.Querier, a Attempt) (attemptTimes, error) {
	account := a.account
	if !a.limitsAccount() {
		account = "" // no row
	}

	var t attemptTimes
	err := q.QueryRowContext(ctx, `SELECT
			COALESCE((SELECT at1 FROM login_attempts WHERE account_fold = $1 AND remote_ip = $2), 0),
			COALESCE((SELECT began FROM login_accounts WHERE account_fold = $3 AND failures >= $6), 0),
			COALESCE((SELECT began FROM login_networks WHERE network = $4 AND failures >= $6), 0),
			COALESCE((SELECT began FROM login_accounts WHERE account_fold = $5 AND failures >= $7), 0)`,
		a.account, a.address, account, a.network, a.deviceAccount(), maxFailures, maxOfDevice).
		Scan(&t.address, &t.account, &t.network, &t.device)
	return t, db.Wrap("read login attempts", err)
}

// addAddressFailure counts a failure of the account from the address. It reports false if the
// account was locked there.
func addAddressFailure(ctx context.Context, tx *store.Tx, a Attempt, now time.Time) (bool, error) {
	from, to := window(now)
	n, err := db.Affected(ctx, tx, "count login attempt", `INSERT INTO login_attempts AS l (account_fold, remote_ip, at1, at2, at3, at4, at5)
		VALUES ($1, $2, 0, 0, 0, 0, $3)
		ON CONFLICT (account_fold, remote_ip) DO UPDATE SET at1 = l.at2, at2 = l.at3, at3 = l.at4, at4 = l.at5, at5 = excluded.at5
		WHERE l.at1 <= $4 OR l.at1 > $5`, a.account, a.address, db.Micros(now), from, to)
	return n > 0, err
}

// A counter is a table of failures in windows that begin with the first one.
type counter struct{ table, column string }

var (
	accounts = counter{table: "login_accounts", column: "account_fold"}
	networks = counter{table: "login_networks", column: "network"}
)

// addFailure counts a failure, and returns the number of those of its window.
func addFailure(ctx context.Context, tx *store.Tx, c counter, value string, now time.Time) (int64, error) {
	from, to := window(now)
	return db.Value[int64](ctx, tx, "count failure in "+c.table, `INSERT INTO `+c.table+` AS l (`+c.column+`, began, failures) VALUES ($1, $2, 1)
		ON CONFLICT (`+c.column+`) DO UPDATE SET
			failures = CASE WHEN l.began <= $3 OR l.began > $4 THEN 1 ELSE l.failures + 1 END,
			began = CASE WHEN l.began <= $3 OR l.began > $4 THEN excluded.began ELSE l.began END
		RETURNING failures`, value, db.Micros(now), from, to)
}

// addAccountFailure is [addFailure] for the account of the attempt. It also returns the number of
// failures within a minute.
func addAccountFailure(ctx context.Context, tx *store.Tx, a Attempt, now time.Time) (int64, int64, error) {
	failures, err := addFailure(ctx, tx, accounts, a.account, now)
	if err != nil {
		return 0, 0, err
	}

	minute := now.Unix() / 60
	inMinute, err := db.Value[int64](ctx, tx, "count login attempt", `UPDATE login_accounts
		SET in_minute = CASE WHEN minute = $1 THEN in_minute + 1 ELSE 1 END, minute = $1 WHERE account_fold = $2 RETURNING in_minute`, minute, a.account)
	return failures, inMinute, err
}

// deleteUnlocked deletes the failures of the account at the address, or those of its device, unless
// they reach a limit.
func deleteUnlocked(ctx context.Context, tx *store.Tx, a Attempt, now time.Time) error {
	from, to := window(now)
	if a.device != "" {
		return db.Exec(ctx, tx, "clear login attempts", `DELETE FROM login_accounts
			WHERE account_fold = $1 AND (failures < $2 OR began <= $3 OR began > $4)`, a.deviceAccount(), maxOfDevice, from, to)
	}

	return db.Exec(ctx, tx, "clear login attempts", `DELETE FROM login_attempts
		WHERE account_fold = $1 AND remote_ip = $2 AND (at1 <= $3 OR at1 > $4)`, a.account, a.address, from, to)
}

// deleteAttempts deletes the failures of an account from every address.
func deleteAttempts(ctx context.Context, tx *store.Tx, account string) error {
	err := db.Exec(ctx, tx, "clear login attempts", `DELETE FROM login_attempts WHERE account_fold = $1`, account)
	if err != nil {
		return err
	}

	return db.Exec(ctx, tx, "clear login attempts", `DELETE FROM login_accounts WHERE account_fold = $1`, account)
}

// deleteOld deletes the failures before a time.
func deleteOld(ctx context.Context, q db.Querier, before time.Time) error {
	for _, query := range []string{
		`DELETE FROM login_attempts WHERE at5 < $1`, `DELETE FROM login_networks WHERE began < $1`, `DELETE FROM login_accounts WHERE began < $1`,
	} {
		if err := db.Exec(ctx, q, "delete login attempts", query, db.Micros(before)); err != nil {
			return err
		}
	}

	return nil
}
