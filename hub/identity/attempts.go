package identity

import (
	"context"
	"database/sql"
	"net/http"
	"net/netip"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// After as many failures as login_attempts has columns, which is five, within lockoutWindow, an account is locked for the
// address until the oldest of them is past the window.
const lockoutWindow = 15 * time.Minute

// maxFailures is how many failures one network may have within lockoutWindow of the first of them, whatever the accounts:
// beyond it nothing is hashed and nothing recorded for it, be the password right or wrong. It bounds what somebody without
// credentials, who changes the name each time, can make the hub do and write; an office behind one address does not fail
// so often.
const maxFailures = 100

// attempt is what failures are counted for.
type attempt struct{ account, address string }

// setupAccount counts wrong setup tokens. No user is named so.
const setupAccount = "/setup"

func attemptOf(r *http.Request, account string) attempt {
	return attempt{cut(foldUsername(account), maxAuditName), network(api.RemoteIP(r))}
}

// recordWithin bounds how long a failure may take to be counted and recorded.
const recordWithin = 10 * time.Second

// detached is for what is counted and recorded of a request also where its client does not wait for the answer.
func detached(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), recordWithin)
}

// network is what counts as one address: of IPv6 the /64, within which anybody has all addresses.
func network(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return cut(ip, 64)
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return addr.String()
	}
	return prefix.String()
}

// window are the moments between which a failure was counted that counts: after from and not after to. One that is farther
// ahead than replicas' clocks differ was counted while a clock was wrong, and would lock somebody out until then.
func (s *Service) window() (from, to int64) {
	now := s.now()
	return db.Micros(now.Add(-lockoutWindow)), db.Micros(now.Add(lockoutWindow))
}

// checkLocked answers 429 while the account is locked for the address, or the whole network is.
func (s *Service) checkLocked(ctx context.Context, q querier, a attempt) error {
	var account, network int64
	err := q.QueryRowContext(ctx, `SELECT
			COALESCE((SELECT at1 FROM login_attempts WHERE account_fold = $1 AND remote_ip = $2), 0),
			COALESCE((SELECT began FROM login_networks WHERE network = $2 AND failures >= $3), 0)`,
		a.account, a.address, maxFailures).Scan(&account, &network)
	if err != nil {
		return fault("read login attempts", err)
	}
	from, to := s.window()
	first := from
	for _, at := range []int64{account, network} {
		if at <= to {
			first = max(first, at)
		}
	}
	if first > from {
		return &api.Error{Code: api.RateLimited, RetryAfter: db.Time(first).Sub(db.Time(from))}
	}
	return nil
}

// countFailure counts a failure for the account and for the network, or answers 429 where others came before it: of any
// number of tries at once, five get to know that they were wrong.
func (s *Service) countFailure(ctx context.Context, tx *sql.Tx, a attempt) error {
	from, to := s.window()
	n, err := affected(ctx, tx, "count login attempt", `INSERT INTO login_attempts AS l (account_fold, remote_ip, at1, at2, at3, at4, at5)
		VALUES ($1, $2, 0, 0, 0, 0, $3)
		ON CONFLICT (account_fold, remote_ip) DO UPDATE SET at1 = l.at2, at2 = l.at3, at3 = l.at4, at4 = l.at5, at5 = excluded.at5
		WHERE l.at1 <= $4 OR l.at1 > $5`, a.account, a.address, db.Micros(s.now()), from, to)
	if err != nil {
		return err
	}
	if n == 0 {
		return s.tooLate(ctx, tx, a)
	}
	return s.countNetwork(ctx, tx, a)
}

// countNetwork counts a failure for the network alone, or answers 429. The window begins anew with the first failure after
// it has passed. Rows of accounts are locked before it.
func (s *Service) countNetwork(ctx context.Context, tx *sql.Tx, a attempt) error {
	from, to := s.window()
	n, err := affected(ctx, tx, "count failure of network", `INSERT INTO login_networks AS l (network, began, failures) VALUES ($1, $2, 1)
		ON CONFLICT (network) DO UPDATE SET
			failures = CASE WHEN l.began <= $3 OR l.began > $4 THEN 1 ELSE l.failures + 1 END,
			began = CASE WHEN l.began <= $3 OR l.began > $4 THEN excluded.began ELSE l.began END
		WHERE l.began <= $3 OR l.began > $4 OR l.failures < $5`, a.address, db.Micros(s.now()), from, to, maxFailures)
	if err != nil || n > 0 {
		return err
	}
	return s.tooLate(ctx, tx, a)
}

// tooLate is the 429 of a failure that came after too many others.
func (s *Service) tooLate(ctx context.Context, tx *sql.Tx, a attempt) error {
	if err := s.checkLocked(ctx, tx, a); err != nil {
		return err
	}
	return &api.Error{Code: api.RateLimited, RetryAfter: time.Second} // it was unlocked this very moment
}

// clearFailures forgets them after a success, or answers 429 where the lock came before it: a right guess among many
// wrong ones at once counts only if it came in time. The member's row is locked before: a reset of the password locks both
// in this order.
func (s *Service) clearFailures(ctx context.Context, tx *sql.Tx, a attempt) error {
	from, to := s.window()
	_, err := affected(ctx, tx, "clear login attempts", `DELETE FROM login_attempts
		WHERE account_fold = $1 AND remote_ip = $2 AND (at1 <= $3 OR at1 > $4)`, a.account, a.address, from, to)
	if err != nil {
		return err
	}
	return s.checkLocked(ctx, tx, a)
}
