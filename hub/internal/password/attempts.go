package password

import (
	"context"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/excerpt"
)

// Window is how long a failure counts. After five failures within it, an account is locked
// for the address until the oldest of them no longer counts. Five is the number of columns of
// login_attempts.
const Window = 15 * time.Minute

// Limits within Window of the first failure.
const (
	// maxFailures bounds the failures of one network, of all accounts together, and those of one
	// account from all networks and devices. The limit of a network bounds the work and the entries
	// that a client without credentials can cause by changing the name. An office behind one address
	// does not fail so often.
	maxFailures = 100

	maxOfDevice = 10
)

// Failures of an account within a minute that are all recorded. Of the later ones, one of sample
// is.
const (
	maxRecorded = 10
	sample      = 10
)

// An Attempt is a password or a setup token that a client presents. It has the budget of its
// device. Without a device, failures are limited for the account at the address, for the network,
// and for the account. In both cases they are counted for the account.
//
// While a limit is reached, the response is 429 for every name, and nothing is compared.
type Attempt struct {
	account string
	address string // an IPv4 address, or an IPv6 /64
	network string // an IPv4 /24, or an IPv6 /48
	device  string // of the account, or ""
}

// setup is the account of incorrect setup tokens. A username never contains a slash, and the
// account of a name that a client gave neither.
const setup = "/setup"

const maxAccount = 128 // characters of the name that a failed login gave

// AttemptOf returns an attempt of a client. The account is "" for a login with an identity
// provider.
func AttemptOf(from api.Caller, account string) Attempt {
	return Attempt{
		account: strings.ReplaceAll(excerpt.Characters(Fold(account), maxAccount), "/", "\\"),
		address: api.AddressOf(from.RemoteIP), network: api.NetworkOf(from.RemoteIP),
	}
}

// SetupOf returns an attempt of a client to create the first user.
func SetupOf(from api.Caller) Attempt {
	a := AttemptOf(from, "")
	a.account = setup
	return a
}

// On returns the attempt with the device, or "", on which the account has signed in.
func (a Attempt) On(device string) Attempt {
	a.device = device
	return a
}

// limitsAccount reports whether the failures of all networks lock the account. Those of the setup
// would lock out the operator.
func (a Attempt) limitsAccount() bool { return a.account != "" && a.account != setup }

// deviceAccount returns the account that counts the failures of the device.
func (a Attempt) deviceAccount() string { return "/device/" + a.device }

// Party returns the party of the hashes of the attempt.
func (a Attempt) Party() Party {
	return Party{account: a.account, network: a.network, known: a.device != ""}
}

// recordWithin bounds the time to count and record a failure.
const recordWithin = 10 * time.Second

// Detached returns a context that is not cancelled when the client disconnects, for counting and
// recording.
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
}

// window returns the range of the times of failures that count: after the first and at most the
// second. A later failure was stored with an incorrect clock, and would lock the account until
// then.
func window(now time.Time) (int64, int64) {
	return db.Micros(now.Add(-Window)), db.Micros(now.Add(Window))
}

// Start fails with 429 if a limit is reached that applies to the attempt.
func (s *Service) Start(ctx context.Context, a Attempt) error {
	return s.check(ctx, s.store.Read(), a)
}

func (s *Service) check(ctx context.Context, q db.Querier, a Attempt) error {
	wait, err := s.wait(ctx, q, a)
	if err == nil && wait > 0 {
		err = rejected(wait)
	}

	return err
}

func rejected(wait time.Duration) error {
	return &api.Refusal{Err: &wire.Error{Code: wire.RateLimited, RetryAfter: wait}, Limit: api.LimitSignIn}
}

// wait returns the time until no limit of the attempt is reached.
func (s *Service) wait(ctx context.Context, q db.Querier, a Attempt) (time.Duration, error) {
	times, err := readTimes(ctx, q, a)
	if err != nil {
		return 0, err
	}

	from, to := window(s.store.Now())
	reached := []int64{times.address, times.account, times.network}
	if a.device != "" {
		reached = []int64{times.device}
	}

	var wait time.Duration
	for _, since := range reached {
		if since > from && since <= to {
			wait = max(wait, db.Time(since).Sub(db.Time(from)))
		}
	}

	return wait, nil
}

// Counted is the outcome of a failure that was counted.
type Counted struct {
	// Entries is the number of failures that an audit entry represents, or 0 without an entry.
	Entries int

	late time.Duration // until the limit ends that others reached first
}

// Err returns 429 if others reached the limit first, or else why. Of any number of concurrent
// attempts, only as many as the limit permits learn that they were incorrect.
func (c Counted) Err(why error) error {
	if c.late > 0 {
		return rejected(c.late)
	}

	return why
}

// Sampled returns the number of failures that the audit entry represents, or 0 for one.
func (c Counted) Sampled() int {
	if c.Entries > 1 {
		return c.Entries
	}

	return 0
}

// Count counts a failure. Rows of addresses are locked before rows of accounts, and these before
// rows of networks.
func (s *Service) Count(ctx context.Context, tx *store.Tx, a Attempt) (Counted, error) {
	now := s.store.Now()
	within := true
	var c Counted
	c.Entries = 1
	var err error
	if a.device != "" {
		n, err := addFailure(ctx, tx, accounts, a.deviceAccount(), now)
		if err != nil {
			return c, err
		}

		within = n <= maxOfDevice
	} else if a.account != "" {
		if within, err = addAddressFailure(ctx, tx, a, now); err != nil {
			return c, err
		}
	}

	if a.account != "" {
		n, inMinute, err := addAccountFailure(ctx, tx, a, now)
		if err != nil {
			return c, err
		}

		within = within && (n <= maxFailures || a.device != "" || !a.limitsAccount())
		c.Entries = entries(inMinute)
	}

	if a.device == "" {
		n, err := addFailure(ctx, tx, networks, a.network, now)
		if err != nil {
			return c, err
		}

		within = within && n <= maxFailures
	}

	if !within {
		c.late, err = s.wait(ctx, tx, a)
		c.late = max(c.late, time.Second) // the limit may have ended in the meantime
	}

	return c, err
}

// entries returns the number of failures that the entry of the nth one within a minute represents.
func entries(n int64) int {
	switch {
	case n <= maxRecorded:
		return 1
	case n%sample == 0:
		return sample
	}

	return 0
}

// Clear deletes the failures of the account at the address, or those of the device, after a
// success. It fails with 429 if a limit was reached first: a correct guess among concurrent
// incorrect ones counts only before that. The row of the member is locked already. A reset of the
// password locks in the same order.
func (s *Service) Clear(ctx context.Context, tx *store.Tx, a Attempt) error {
	if err := deleteUnlocked(ctx, tx, a, s.store.Now()); err != nil {
		return err
	}

	return s.check(ctx, tx, a)
}

// Forget deletes the failures of a user whose password was reset: failures with the former password
// must not lock out its owner.
func Forget(ctx context.Context, tx *store.Tx, username string) error {
	return deleteAttempts(ctx, tx, Fold(username))
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
