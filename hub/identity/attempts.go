package identity

import (
	"context"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/excerpt"
)

// lockoutWindow is how long a failure counts. After five failures within it, an account is locked
// for the address until the oldest of them no longer counts. Five is the number of columns of
// login_attempts.
const lockoutWindow = 15 * time.Minute

// maxFailures bounds the failures of one network, of all accounts together, and those of one
// account from all networks, within lockoutWindow of the first one. The limit of a network bounds
// the work and the entries that a client without credentials can cause by changing the name. An
// office behind one address does not fail so often.
const maxFailures = 100

// exemptWindow is how long an account is known after a sign-in, at its address and in its network.
// Failures of others cannot lock out a known account: its correct password passes.
const exemptWindow = 24 * time.Hour

// slowAttempts is the minimum time between two passwords of an account from an address that are
// checked while a limit is reached.
const slowAttempts = 5 * time.Second

// An attempt is a password or a setup token that a client presents. Failures are counted for the
// account and address, for the network, and for the account.
//
// While a limit is reached, the response is 429 for every name. The password is checked only if an
// account signed in from the network within a day, with the same work for every name, and only a
// correct one of an account that is known there passes.
type attempt struct {
	account string
	address string // an IPv4 address, or an IPv6 /64
	network string // an IPv4 /24, or an IPv6 /48
	known   known  // where the account signed in within a day
	user    bool   // of a signed-in user: the limit of the network does not apply
	locked  bool   // a limit is reached
	passes  bool   // a correct password passes: the account is known where the limit is reached

	rejected error // the 429 while a limit is reached
}

// known states where sign-ins within a day came from.
type known struct {
	address bool // of the account, from the address
	network bool // of the account, from the network
	anyone  bool // of any account, from the network
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
	a.user, a.known.network = true, true
	return a
}

func changeAccount(userID string) string { return "/change-password/" + userID }

// share returns the parties that the hash of the attempt is charged to.
func (a attempt) share() share {
	if a.known.network {
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
	now := s.store.Now()
	return db.Micros(now.Add(-lockoutWindow)), db.Micros(now.Add(lockoutWindow))
}

// startAttempt returns the attempt with what is known about it, or fails with 429 if its password
// is not checked.
func (s *Service) startAttempt(ctx context.Context, a attempt) (attempt, error) {
	if !a.user {
		var err error
		now := s.store.Now()
		if a.known, err = signInsFrom(ctx, s.store.Read(), DefaultTenant, a, now.Add(-exemptWindow), now.Add(lockoutWindow)); err != nil {
			return a, err
		}
	}
	limits, err := s.limits(ctx, s.store.Read(), a)
	if err != nil {
		return a, err
	}
	a.locked, a.passes, a.rejected = limits.wait > 0, limits.bypassed, limits.rejected()
	if a.locked && (!a.known.anyone || limits.recent) {
		return a, limits.rejected()
	}
	return a, nil
}

// limits are those that an attempt has reached.
type limits struct {
	wait     time.Duration // until none of them is reached
	bypassed bool          // the account is known where they apply
	recent   bool          // a failure of the account from the address is younger than slowAttempts
}

func (l limits) rejected() error { return &api.Error{Code: api.RateLimited, RetryAfter: l.wait} }

func (s *Service) limits(ctx context.Context, q db.Querier, a attempt) (l limits, err error) {
	read, err := readAttempts(ctx, q, a)
	if err != nil {
		return l, err
	}
	from, to := s.window()
	l.bypassed, l.recent = true, read.last > db.Micros(s.store.Now().Add(-slowAttempts)) && read.last <= to
	for _, limit := range []struct {
		since  int64
		exempt bool // the limit does not apply
		known  bool
	}{{read.address, false, a.known.address}, {read.account, false, a.known.address}, {read.network, a.user, a.known.network}} {
		if limit.since > from && limit.since <= to && !limit.exempt {
			l.wait = max(l.wait, db.Time(limit.since).Sub(db.Time(from)))
			l.bypassed = l.bypassed && limit.known
		}
	}
	return l, nil
}

// checkLocked fails with 429 if a limit is reached that applies to the account.
func (s *Service) checkLocked(ctx context.Context, q db.Querier, a attempt) error {
	limits, err := s.limits(ctx, q, a)
	if err == nil && limits.wait > 0 && !limits.bypassed {
		err = limits.rejected()
	}
	return err
}

// countFailure counts a failure for the account and for the network, or fails with 429 if others
// reached the limit first. Of any number of concurrent attempts, only five learn that they were
// incorrect.
func (s *Service) countFailure(ctx context.Context, tx *store.Tx, a attempt) error {
	from, to := s.window()
	counted, err := addAddressFailure(ctx, tx, a, s.store.Now(), from, to)
	if err != nil {
		return err
	}
	if !counted {
		return s.tooLate(ctx, tx, a)
	}
	if err := s.countAccount(ctx, tx, a); err != nil {
		return err
	}
	return s.countNetwork(ctx, tx, a)
}

// countAccount counts a failure of an account from all networks, or fails with 429. The account of
// the setup and the change of a password have no such limit: it would lock out the operator, or the
// user who is signed in.
func (s *Service) countAccount(ctx context.Context, tx *store.Tx, a attempt) error {
	if strings.HasPrefix(a.account, "/") {
		return nil
	}
	from, to := s.window()
	counted, err := addAccountFailure(ctx, tx, a, s.store.Now(), from, to)
	if err != nil || counted {
		return err
	}
	return s.tooLate(ctx, tx, a)
}

// countNetwork counts a failure only for the network, or fails with 429. The first failure after a
// window begins a new window. Rows of addresses are locked before rows of accounts, and these
// before rows of networks.
func (s *Service) countNetwork(ctx context.Context, tx *store.Tx, a attempt) error {
	from, to := s.window()
	counted, err := addNetworkFailure(ctx, tx, a, s.store.Now(), from, to)
	if err != nil || counted || a.user {
		return err
	}
	return s.tooLate(ctx, tx, a)
}

// tooLate returns the 429 of a failure that came after the lock.
func (s *Service) tooLate(ctx context.Context, tx *store.Tx, a attempt) error {
	limits, err := s.limits(ctx, tx, a)
	if err != nil {
		return err
	}
	limits.wait = max(limits.wait, time.Second) // the lock may have ended in the meantime
	return limits.rejected()
}

// rejectSlowly counts a failed attempt while a limit is reached, and returns its 429.
// It does the same for every name and password, and nothing is recorded.
func (s *Service) rejectSlowly(ctx context.Context, a attempt) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		_, err := s.slowly(ctx, tx, a)
		return err
	})
	if err != nil {
		return err
	}
	return a.rejected
}

// slowly counts an attempt while a limit is reached. It reports false if there was one within
// slowAttempts.
func (s *Service) slowly(ctx context.Context, tx *store.Tx, a attempt) (bool, error) {
	_, to := s.window()
	return addSlowAttempt(ctx, tx, a, s.store.Now(), db.Micros(s.store.Now().Add(-slowAttempts)), to)
}

// clearFailures deletes the failures of the account after a success, or fails with 429 if a limit
// was reached first that applies to it: a correct guess among concurrent incorrect ones counts only
// before the lock, and one of several concurrent ones while a limit is reached. The row of the
// member is locked already. A reset of the password locks in the same order.
func (s *Service) clearFailures(ctx context.Context, tx *store.Tx, a attempt) error {
	if a.locked {
		first, err := s.slowly(ctx, tx, a)
		if err != nil {
			return err
		}
		if !first {
			return s.tooLate(ctx, tx, a)
		}
		if err := s.checkLocked(ctx, tx, a); err != nil {
			return err
		}
		return deleteAddressFailures(ctx, tx, a)
	}
	from, to := s.window()
	if err := deleteUnlocked(ctx, tx, a, from, to); err != nil {
		return err
	}
	limits, err := s.limits(ctx, tx, a)
	if err == nil && limits.wait > 0 && !(limits.bypassed && a.known.network) {
		err = limits.rejected()
	}
	return err
}
