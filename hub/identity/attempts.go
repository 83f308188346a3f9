package identity

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/excerpt"
)

// lockoutWindow is how long a failure counts. After five failures within it, an account is locked
// for the address until the oldest of them no longer counts. Five is the number of columns of
// login_attempts.
const lockoutWindow = 15 * time.Minute

// maxFailures bounds the failures of one network, of all accounts together, within lockoutWindow of
// the first one. Above it, no password is hashed and nothing is recorded, whether the password is
// correct or not. It bounds the work and the entries that a client without credentials can cause by
// changing the name. An office behind one address does not fail so often.
const maxFailures = 100

// exemptWindow is how long the limit of the network does not apply to an account after a sign-in
// from that network. A guest in the network of an office cannot lock out its users.
const exemptWindow = 24 * time.Hour

// An attempt is a password or a setup token that a client presents. Failures are counted for the
// account and address, and for the network.
type attempt struct {
	account string
	address string // an IPv4 address, or an IPv6 /64
	network string // an IPv4 /24, or an IPv6 /48
	exempt  bool   // the limit of the network does not apply
}

// setupAccount counts incorrect setup tokens. A username never contains a slash.
const setupAccount = "/setup"

func attemptOf(from api.Caller, account string) attempt {
	return attempt{
		account: excerpt.Characters(foldUsername(account), maxAuditName),
		address: addressOf(from.RemoteIP), network: networkOf(from.RemoteIP),
	}
}

// changeAttempt returns the attempt of a signed-in user to change the password. Failed logins do
// not count for it.
func changeAttempt(caller api.Caller) attempt {
	a := attemptOf(caller, changeAccount(caller.UserID))
	a.exempt = true
	return a
}

func changeAccount(userID string) string { return "/change-password/" + userID }

// share returns the parties that the hash of the attempt is charged to.
func (a attempt) share() share {
	if a.exempt {
		return share{[]string{"known account " + a.account}, a.network, true}
	}
	return share{[]string{"account " + a.account, "network " + a.network}, a.network, false}
}

// knownShare returns the share of one known party.
func knownShare(party string, from api.Caller) share {
	return share{[]string{party}, networkOf(from.RemoteIP), true}
}

// recordWithin bounds the time to count and record a failure.
const recordWithin = 10 * time.Second

// detached returns a context that is not cancelled when the client disconnects, for counting and
// recording.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
}

// window returns the range of the times of failures that count: after from and at most to. A
// failure later than to was stored with an incorrect clock, and would lock the account until then.
func (s *Service) window() (from, to int64) {
	now := s.now()
	return db.Micros(now.Add(-lockoutWindow)), db.Micros(now.Add(lockoutWindow))
}

// startAttempt fails with 429 if the account is locked for the address, or the network is.
// Otherwise it returns the attempt with exempt set for an account that signed in from the network
// within a day.
func (s *Service) startAttempt(ctx context.Context, a attempt) (attempt, error) {
	if !a.exempt {
		var err error
		if a.exempt, err = signedInFrom(ctx, s.db.Read(), DefaultTenant, a, s.now().Add(-exemptWindow)); err != nil {
			return a, err
		}
	}
	return a, s.checkLocked(ctx, s.db.Read(), a)
}

// checkLocked fails with 429 if the account is locked for the address, or the network is and the
// attempt is not exempt.
func (s *Service) checkLocked(ctx context.Context, q db.Querier, a attempt) error {
	account, network, err := readAttempts(ctx, q, a)
	if err != nil {
		return err
	}
	if a.exempt {
		network = 0
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

// countFailure counts a failure for the account and for the network, or fails with 429 if others
// reached the limit first. Of any number of concurrent attempts, only five learn that they were
// incorrect.
func (s *Service) countFailure(ctx context.Context, tx *sql.Tx, a attempt) error {
	from, to := s.window()
	counted, err := addAccountFailure(ctx, tx, a, s.now(), from, to)
	if err != nil {
		return err
	}
	if !counted {
		return s.tooLate(ctx, tx, a)
	}
	return s.countNetwork(ctx, tx, a)
}

// countNetwork counts a failure only for the network, or fails with 429. The first failure after a
// window begins a new window. Rows of accounts are locked before rows of networks.
func (s *Service) countNetwork(ctx context.Context, tx *sql.Tx, a attempt) error {
	from, to := s.window()
	counted, err := addNetworkFailure(ctx, tx, a, s.now(), from, to)
	if err != nil || counted || a.exempt {
		return err
	}
	return s.tooLate(ctx, tx, a)
}

// tooLate returns the 429 of a failure that came after the lock.
func (s *Service) tooLate(ctx context.Context, tx *sql.Tx, a attempt) error {
	if err := s.checkLocked(ctx, tx, a); err != nil {
		return err
	}
	return &api.Error{Code: api.RateLimited, RetryAfter: time.Second} // the lock has ended in the meantime
}

// clearFailures deletes the failures of the account after a success, or fails with 429 if the
// account was locked first: a correct guess among concurrent incorrect ones counts only before the
// lock. The row of the member is locked already. A reset of the password locks in the same order.
func (s *Service) clearFailures(ctx context.Context, tx *sql.Tx, a attempt) error {
	from, to := s.window()
	if err := deleteUnlocked(ctx, tx, a, from, to); err != nil {
		return err
	}
	return s.checkLocked(ctx, tx, a)
}
