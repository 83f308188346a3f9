package identity

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
)

// Failed attempts are counted by account and address, before a tenant is known: the account is the
// submitted name.

// signedInFrom reports whether the account signed in from the network of the attempt since then.
func signedInFrom(ctx context.Context, q db.Querier, tenantID string, a attempt, since time.Time) (known bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sessions s JOIN members m ON m.id = s.user_id
		WHERE m.tenant_id = $1 AND m.username_fold = $2 AND s.network = $3 AND s.created_at > $4)`,
		tenantID, a.account, a.network, db.Micros(since)).Scan(&known)
	return known, db.Wrap("read sign-ins", err)
}

// readAttempts returns the times, in microseconds, of the failures that lock the account and the
// network: the fifth last failure of the account, and the first of the window of the network. 0
// means that it is not locked.
func readAttempts(ctx context.Context, q db.Querier, a attempt) (account, network int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT
			COALESCE((SELECT at1 FROM login_attempts WHERE account_fold = $1 AND remote_ip = $2), 0),
			COALESCE((SELECT began FROM login_networks WHERE network = $3 AND failures >= $4), 0)`,
		a.account, a.address, a.network, maxFailures).Scan(&account, &network)
	return account, network, db.Wrap("read login attempts", err)
}

// addAccountFailure counts a failure of the account, unless the account is locked within the
// window.
func addAccountFailure(ctx context.Context, tx *sql.Tx, a attempt, now time.Time, from, to int64) (counted bool, err error) {
	n, err := db.Affected(ctx, tx, "count login attempt", `INSERT INTO login_attempts AS l (account_fold, remote_ip, at1, at2, at3, at4, at5)
		VALUES ($1, $2, 0, 0, 0, 0, $3)
		ON CONFLICT (account_fold, remote_ip) DO UPDATE SET at1 = l.at2, at2 = l.at3, at3 = l.at4, at4 = l.at5, at5 = excluded.at5
		WHERE l.at1 <= $4 OR l.at1 > $5`, a.account, a.address, db.Micros(now), from, to)
	return n > 0, err
}

// addNetworkFailure counts a failure of the network, unless the network is locked within the
// window.
func addNetworkFailure(ctx context.Context, tx *sql.Tx, a attempt, now time.Time, from, to int64) (counted bool, err error) {
	n, err := db.Affected(ctx, tx, "count failure of network", `INSERT INTO login_networks AS l (network, began, failures) VALUES ($1, $2, 1)
		ON CONFLICT (network) DO UPDATE SET
			failures = CASE WHEN l.began <= $3 OR l.began > $4 THEN 1 ELSE l.failures + 1 END,
			began = CASE WHEN l.began <= $3 OR l.began > $4 THEN excluded.began ELSE l.began END
		WHERE l.began <= $3 OR l.began > $4 OR l.failures < $5`, a.network, db.Micros(now), from, to, maxFailures)
	return n > 0, err
}

// deleteUnlocked deletes the failures of the account at the address, unless they lock it.
func deleteUnlocked(ctx context.Context, tx *sql.Tx, a attempt, from, to int64) error {
	_, err := db.Affected(ctx, tx, "clear login attempts", `DELETE FROM login_attempts
		WHERE account_fold = $1 AND remote_ip = $2 AND (at1 <= $3 OR at1 > $4)`, a.account, a.address, from, to)
	return err
}

// deleteAttempts deletes the failures of two accounts from every address.
func deleteAttempts(ctx context.Context, tx *sql.Tx, account, other string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM login_attempts WHERE account_fold IN ($1, $2)`, account, other)
	return db.Wrap("clear login attempts", err)
}
