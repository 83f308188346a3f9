package password

import (
	"context"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/excerpt"
)

// Window is how long a failure counts. After five failures within it, an account is locked
// for the address until the oldest of them no longer counts. Five is the number of columns of
// login_attempts.
const Window = 15 * time.Minute

// maxFailures bounds the failures of one network, of all accounts together, and those of one
// account from all networks, within Window of the first one. The limit of a network bounds
// the work and the entries that a client without credentials can cause by changing the name. An
// office behind one address does not fail so often.
const maxFailures = 100

// exemptWindow is how long an account is known after a sign-in, at its address and in its network.
// Failures of others cannot lock out a known account: its correct password passes.
const exemptWindow = 24 * time.Hour

// slowAttempts is the minimum time between two passwords of an account from an address that are
// checked while a limit is reached.
const slowAttempts = 5 * time.Second

// An Attempt is a password or a setup token that a client presents. Failures are counted for the
// account and address, for the network, and for the account.
//
// While a limit is reached, the response is 429 for every name. The password is checked only if an
// account signed in from the network within a day, with the same work for every name, and only a
// correct one of an account that is known there passes.
type Attempt struct {
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

// Accounts that count other attempts than logins. A username never contains a slash.
const (
	Setup    = "/setup"    // incorrect setup tokens
	External = "/external" // logins with an identity provider while a limit is reached

	maxAccount = 128 // characters of the name that a failed login gave
)

// AttemptOf returns an attempt of a client that is not signed in.
func AttemptOf(from api.Caller, account string) Attempt {
	return Attempt{
		account: excerpt.Characters(Fold(account), maxAccount),
		address: api.AddressOf(from.RemoteIP), network: api.NetworkOf(from.RemoteIP),
	}
}

// ChangeAttempt returns the attempt of a signed-in user to change the password. Failed logins do
// not count for it.
func ChangeAttempt(caller api.Caller) Attempt {
	a := AttemptOf(caller, changeAccount(caller.UserID))
	a.user, a.known.network = true, true
	return a
}

func changeAccount(userID string) string { return "/change-password/" + userID }

// Party returns the party of the hashes of the attempt.
func (a Attempt) Party() Party {
	return Party{account: a.account, network: a.network, known: a.known.network}
}

// recordWithin bounds the time to count and record a failure.
const recordWithin = 10 * time.Second

// Detached returns a context that is not cancelled when the client disconnects, for counting and
// recording.
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
}

// window returns the range of the times of failures that count: after from and at most to. A
// failure later than to was stored with an incorrect clock, and would lock the account until then.
func window(now time.Time) (from, to int64) {
	return db.Micros(now.Add(-Window)), db.Micros(now.Add(Window))
}

// Start returns the attempt with the known facts about it, or fails with 429 if its password is not
// checked.
func (s *Service) Start(ctx context.Context, a Attempt) (Attempt, error) {
	now := s.store.Now()
	read := readAttempts
	if a.user {
		read = readTimes
	}
	times, err := read(ctx, s.store.Read(), &a, now)
	if err != nil {
		return a, err
	}
	reached := a.reached(times, now)
	a.locked, a.passes, a.rejected = reached.wait > 0, reached.bypassed, reached.rejected()
	if a.locked && (!a.known.anyone || reached.recent) {
		return a, a.rejected
	}
	return a, nil
}

// Refused reports whether a password is rejected by [Service.RejectSlowly], because a limit is
// reached and it is incorrect, or the account is not known there.
func (a Attempt) Refused(right bool) bool { return a.locked && !(right && a.passes) }

// limits are those that an attempt has reached.
type limits struct {
	wait     time.Duration // until none of them is reached
	bypassed bool          // the account is known where they apply
	recent   bool          // a failure of the account from the address is younger than slowAttempts
}

func (l limits) rejected() error {
	return &api.Error{Code: api.RateLimited, RetryAfter: l.wait, Limit: api.LimitSignIn}
}

// reached returns the limits that the attempt has reached.
func (a Attempt) reached(times attemptTimes, now time.Time) (l limits) {
	from, to := window(now)
	l.bypassed = true
	l.recent = times.last > db.Micros(now.Add(-slowAttempts)) && times.last <= to
	for _, limit := range []struct {
		since  int64
		exempt bool // the limit does not apply
		known  bool
	}{
		{since: times.address, known: a.known.address},
		{since: times.account, known: a.known.address},
		{since: times.network, known: a.known.network, exempt: a.user},
	} {
		if limit.since > from && limit.since <= to && !limit.exempt {
			l.wait = max(l.wait, db.Time(limit.since).Sub(db.Time(from)))
			l.bypassed = l.bypassed && limit.known
		}
	}
	return l
}

// limits reads the limits that the attempt has reached.
func (s *Service) limits(ctx context.Context, q db.Querier, a Attempt) (limits, error) {
	now := s.store.Now()
	times, err := readTimes(ctx, q, &a, now)
	return a.reached(times, now), err
}

// CheckLocked fails with 429 if a limit is reached that applies to the account.
func (s *Service) CheckLocked(ctx context.Context, a Attempt) error {
	return s.checkLocked(ctx, s.store.Read(), a)
}

func (s *Service) checkLocked(ctx context.Context, q db.Querier, a Attempt) error {
	limits, err := s.limits(ctx, q, a)
	if err == nil && limits.wait > 0 && !limits.bypassed {
		err = limits.rejected()
	}
	return err
}

// Count counts a failure for the account and for the network, or fails with 429 if others
// reached the limit first. Of any number of concurrent attempts, only five learn that they were
// incorrect.
func (s *Service) Count(ctx context.Context, tx *store.Tx, a Attempt) error {
	from, to := window(s.store.Now())
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
	return s.CountNetwork(ctx, tx, a)
}

// countAccount counts a failure of an account from all networks, or fails with 429. The account of
// the setup and the change of a password have no such limit: it would lock out the operator, or the
// user who is signed in.
func (s *Service) countAccount(ctx context.Context, tx *store.Tx, a Attempt) error {
	if strings.HasPrefix(a.account, "/") {
		return nil
	}
	counted, err := addAccountFailure(ctx, tx, a, s.store.Now())
	if err != nil || counted {
		return err
	}
	return s.tooLate(ctx, tx, a)
}

// CountNetwork counts a failure only for the network, or fails with 429. The first failure after a
// window begins a new window. Rows of addresses are locked before rows of accounts, and these
// before rows of networks.
func (s *Service) CountNetwork(ctx context.Context, tx *store.Tx, a Attempt) error {
	counted, err := addNetworkFailure(ctx, tx, a, s.store.Now())
	if err != nil || counted || a.user {
		return err
	}
	return s.tooLate(ctx, tx, a)
}

// tooLate returns the 429 of a failure that came after the lock.
func (s *Service) tooLate(ctx context.Context, tx *store.Tx, a Attempt) error {
	limits, err := s.limits(ctx, tx, a)
	if err != nil {
		return err
	}
	limits.wait = max(limits.wait, time.Second) // the lock may have ended in the meantime
	return limits.rejected()
}

// RejectSlowly counts a failed attempt while a limit is reached, and returns its 429.
// It does the same for every name and password, and nothing is recorded.
func (s *Service) RejectSlowly(ctx context.Context, a Attempt) error {
	ctx, cancel := Detached(ctx)
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
func (s *Service) slowly(ctx context.Context, tx *store.Tx, a Attempt) (bool, error) {
	_, to := window(s.store.Now())
	return addSlowAttempt(ctx, tx, a, s.store.Now(), db.Micros(s.store.Now().Add(-slowAttempts)), to)
}

// Clear deletes the failures of the account after a success, or fails with 429 if a limit
// was reached first that applies to it: a correct guess among concurrent incorrect ones counts only
// before the lock, and one of several concurrent ones while a limit is reached. The row of the
// member is locked already. A reset of the password locks in the same order.
func (s *Service) Clear(ctx context.Context, tx *store.Tx, a Attempt) error {
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
	from, to := window(s.store.Now())
	if err := deleteUnlocked(ctx, tx, a, from, to); err != nil {
		return err
	}
	limits, err := s.limits(ctx, tx, a)
	if err == nil && limits.wait > 0 && !(limits.bypassed && a.known.network) {
		err = limits.rejected()
	}
	return err
}

// Forget deletes the failures of a user whose password was reset: failures with the former password
// must not lock out its owner.
func Forget(ctx context.Context, tx *store.Tx, userID, username string) error {
	return deleteAttempts(ctx, tx, Fold(username), changeAccount(userID))
}

// CheckNetwork fails with 429 if too many attempts from the network have failed. Failures of others
// do not lock out an address from which a user of the tenant signed in within a day: one attempt
// every 5 s is checked there.
func (s *Service) CheckNetwork(ctx context.Context, a Attempt, tenantID string) error {
	reached, err := s.limits(ctx, s.store.Read(), a)
	if err != nil || reached.wait == 0 {
		return err
	}
	known, err := signedInFrom(ctx, s.store.Read(), tenantID, a, s.store.Now())
	if err != nil {
		return err
	}
	if known {
		err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
			known, err = s.slowly(ctx, tx, a)
			return err
		})
	}
	if err == nil && !known {
		err = reached.rejected()
	}
	return err
}

// Sweep deletes the failures that no longer count.
func (s *Service) Sweep(ctx context.Context) error {
	return deleteOld(ctx, s.store.DB.Write(), s.store.Now().Add(-Window))
}

// Fold returns the form in which usernames are compared: with ASCII letters in lower case. Other
// letters stay, because some of them (the Kelvin sign) have an ASCII letter as their lower case.
func Fold(username string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, username)
}
