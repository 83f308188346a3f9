package password

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/db"
)

// Failed attempts are counted by account and address, before a tenant is known: the account is the
// submitted name.

// signedInFrom reports whether a user of a tenant signed in from the address between the times.
func signedInFrom(ctx context.Context, q db.Querier, tenantID string, a Attempt, now time.Time) (bool, error) {
	return db.Value[bool](ctx, q, "read sign-ins", `SELECT EXISTS (SELECT 1 FROM sessions
		WHERE tenant_id = $1 AND network = $2 AND address = $3 AND created_at > $4 AND created_at <= $5)`,
		tenantID, a.network, a.address, db.Micros(now.Add(-exemptWindow)), db.Micros(now.Add(Window)))
}

// attemptTimes are the times, in microseconds, of the failures that limit an attempt: the fifth
// last one of the account from the address, and the first of the windows of the account and the
// network. 0 means that there is no limit.
type attemptTimes struct {
	address, account, network int64
	last                      int64 // of the account from the address
}

// selectTimes has the parameters account, address, network and maxFailures.
const selectTimes = `SELECT
	COALESCE((SELECT at1 FROM login_attempts WHERE account_fold = $1 AND remote_ip = $2), 0),
	COALESCE((SELECT at5 FROM login_attempts WHERE account_fold = $1 AND remote_ip = $2), 0),
	COALESCE((SELECT began FROM login_accounts WHERE account_fold = $1 AND failures >= $4), 0),
	COALESCE((SELECT began FROM login_networks WHERE network = $3 AND failures >= $4), 0)`

// readTimes reads the failures that limit an attempt.
func readTimes(ctx context.Context, q db.Querier, a *Attempt, _ time.Time) (t attemptTimes, err error) {
	err = q.QueryRowContext(ctx, selectTimes, a.account, a.address, a.network, maxFailures).Scan(&t.address, &t.last, &t.account, &t.network)
	return t, db.Wrap("read login attempts", err)
}

// readAttempts is readTimes, and reads where the sign-ins within a day came from. The work is the
// same for every name.
func readAttempts(ctx context.Context, q db.Querier, a *Attempt, now time.Time) (t attemptTimes, err error) {
	err = q.QueryRowContext(ctx, selectTimes+`, k.address, k.network, k.anyone FROM (
			SELECT COUNT(CASE WHEN m.username_fold = $1 AND s.address = $2 THEN 1 END) > 0 AS address,
				COUNT(CASE WHEN m.username_fold = $1 THEN 1 END) > 0 AS network, COUNT(*) > 0 AS anyone
			FROM sessions s JOIN members m ON m.id = s.user_id AND m.tenant_id = s.tenant_id
			WHERE s.tenant_id = $5 AND s.network = $3 AND s.created_at > $6 AND s.created_at <= $7) k`,
		a.account, a.address, a.network, maxFailures, api.DefaultTenant, db.Micros(now.Add(-exemptWindow)), db.Micros(now.Add(Window))).
		Scan(&t.address, &t.last, &t.account, &t.network, &a.known.address, &a.known.network, &a.known.anyone)
	return t, db.Wrap("read login attempts", err)
}

// addAddressFailure counts a failure of the account from the address, unless it is locked within
// the window.
func addAddressFailure(ctx context.Context, tx *store.Tx, a Attempt, now time.Time, from, to int64) (counted bool, err error) {
	n, err := db.Affected(ctx, tx, "count login attempt", `INSERT INTO login_attempts AS l (account_fold, remote_ip, at1, at2, at3, at4, at5)
		VALUES ($1, $2, 0, 0, 0, 0, $3)
		ON CONFLICT (account_fold, remote_ip) DO UPDATE SET at1 = l.at2, at2 = l.at3, at3 = l.at4, at4 = l.at5, at5 = excluded.at5
		WHERE l.at1 <= $4 OR l.at1 > $5`, a.account, a.address, db.Micros(now), from, to)
	return n > 0, err
}

// addSlowAttempt counts an attempt while a limit is reached, unless there was one after recent. The
// lock of the account does not become longer.
func addSlowAttempt(ctx context.Context, tx *store.Tx, a Attempt, now time.Time, recent, to int64) (counted bool, err error) {
	n, err := db.Affected(ctx, tx, "count login attempt", `INSERT INTO login_attempts AS l (account_fold, remote_ip, at1, at2, at3, at4, at5)
		VALUES ($1, $2, 0, 0, 0, 0, $3)
		ON CONFLICT (account_fold, remote_ip) DO UPDATE SET at5 = excluded.at5 WHERE l.at5 <= $4 OR l.at5 > $5`,
		a.account, a.address, db.Micros(now), recent, to)
	return n > 0, err
}

// addAccountFailure counts a failure of the account from all networks, see [addFailure].
func addAccountFailure(ctx context.Context, tx *store.Tx, a Attempt, now time.Time) (counted bool, err error) {
	return addFailure(ctx, tx, "login_accounts", "account_fold", a.account, now)
}

// addNetworkFailure counts a failure of the network, see [addFailure].
func addNetworkFailure(ctx context.Context, tx *store.Tx, a Attempt, now time.Time) (counted bool, err error) {
	return addFailure(ctx, tx, "login_networks", "network", a.network, now)
}

// addFailure counts a failure in a window that begins with the first one. It reports false if there
// were maxFailures in it.
func addFailure(ctx context.Context, tx *store.Tx, table, column, value string, now time.Time) (counted bool, err error) {
	from, to := window(now)
	n, err := db.Affected(ctx, tx, "count failure in "+table, `INSERT INTO `+table+` AS l (`+column+`, began, failures) VALUES ($1, $2, 1)
		ON CONFLICT (`+column+`) DO UPDATE SET
			failures = CASE WHEN l.began <= $3 OR l.began > $4 THEN 1 ELSE l.failures + 1 END,
			began = CASE WHEN l.began <= $3 OR l.began > $4 THEN excluded.began ELSE l.began END
		WHERE l.began <= $3 OR l.began > $4 OR l.failures < $5`, value, db.Micros(now), from, to, maxFailures)
	return n > 0, err
}

// deleteUnlocked deletes the failures of the account at the address, unless they lock it.
func deleteUnlocked(ctx context.Context, tx *store.Tx, a Attempt, from, to int64) error {
	return db.Exec(ctx, tx, "clear login attempts", `DELETE FROM login_attempts
		WHERE account_fold = $1 AND remote_ip = $2 AND (at1 <= $3 OR at1 > $4)`, a.account, a.address, from, to)
}

// deleteAddressFailures deletes the failures of the account at the address.
func deleteAddressFailures(ctx context.Context, tx *store.Tx, a Attempt) error {
	return db.Exec(ctx, tx, "clear login attempts",
		`DELETE FROM login_attempts WHERE account_fold = $1 AND remote_ip = $2`, a.account, a.address)
}

// deleteAttempts deletes the failures of two accounts from every address.
func deleteAttempts(ctx context.Context, tx *store.Tx, account, other string) error {
	err := db.Exec(ctx, tx, "clear login attempts", `DELETE FROM login_attempts WHERE account_fold IN ($1, $2)`, account, other)
	if err != nil {
		return err
	}
	return db.Exec(ctx, tx, "clear login attempts", `DELETE FROM login_accounts WHERE account_fold IN ($1, $2)`, account, other)
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
