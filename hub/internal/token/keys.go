package token

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/secret"
)

const (
	keyLife   = 90 * 24 * time.Hour // how long a key signs
	keyReload = time.Minute         // maximum age of the cached keys
	keySearch = time.Second         // minimum time between two searches for an unknown key

	searchWithin = 5 * time.Second

	// A replica may sign with a retired key until it reloads. The last of these tokens must expire
	// before the key does.
	keyGrace = keyReload + Life + time.Minute
)

// signingKey is a row of the table. A key that is not retired has no expiry. Only the key that
// signs has a private part.
type signingKey struct {
	id      string
	public  ed25519.PublicKey
	private ed25519.PrivateKey
	sealed  []byte // the private part of a key that is not stored yet
	created time.Time
	expires time.Time
	retired bool
	shut    error // why the private part, or the whole key, cannot be used
}

// Keys are the signing keys of the hub, with a copy in memory that is at most a minute old. All
// replicas share them.
type Keys struct {
	store  *store.Store
	issuer string // the instance id

	mu       sync.RWMutex // guards the fields up to warnedAt
	keys     map[string]signingKey
	signing  signingKey
	current  string // id of the key that all replicas sign with
	loadedAs uint64 // the value of reads when the last load began
	shut     error  // why a key cannot be opened with this keyring, or nil
	loadedAt time.Time
	warnedAt time.Time

	reads atomic.Uint64 // orders loads and other reads of the current key

	searching  sync.Mutex // guards the fields below
	searchedAt time.Time
	searchErr  error
}

// New returns the signing keys. It creates the id of the hub and the first key if they do not
// exist. Replicas that start concurrently use the same ones.
func New(ctx context.Context, s *store.Store) (*Keys, error) {
	k := &Keys{store: s}
	err := s.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		k.issuer, err = insertInstance(ctx, tx, ids.New())
		return err
	})
	if err != nil {
		return nil, db.Wrap("read instance id", err)
	}

	if err := k.load(ctx); err != nil {
		return nil, err
	}

	if k.shut != nil { // an incorrect keyring is an error at the start, not at the first sign-in
		return nil, k.shut
	}

	if k.signer().id == "" {
		return k, k.rotate(ctx, "")
	}

	return k, nil
}

// Reads returns a number that is larger than that of each earlier read of the keys, for
// [Keys.Follow].
func (k *Keys) Reads() uint64 { return k.reads.Add(1) }

// signer returns the key that signs new tokens.
func (k *Keys) signer() signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.signing
}

// public returns the public key with the id. If the id is unknown, it searches the database,
// because another replica may just have created the key. It returns nil if the hub has no such key
// or the key has expired.
func (k *Keys) public(ctx context.Context, id string) (ed25519.PublicKey, error) {
	for range 2 {
		k.mu.RLock()
		key, ok := k.keys[id]
		k.mu.RUnlock()
		if ok && (key.expires.IsZero() || k.store.Now().Before(key.expires)) {
			return key.public, nil
		}

		if ok || !isID(id) {
			break
		}

		if err := k.search(ctx); err != nil {
			return nil, err
		}
	}

	return nil, nil
}

// search reads the keys because a token names an unknown one. Anyone can send such a token, so
// concurrent callers, and callers within the next second, share one result.
func (k *Keys) search(ctx context.Context) error {
	k.searching.Lock()
	defer k.searching.Unlock()
	now := k.store.Now()
	if age := now.Sub(k.searchedAt); age >= 0 && age < keySearch {
		return k.searchErr
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), searchWithin) // other callers wait for the result too
	defer cancel()
	k.searchErr = k.load(ctx)
	k.searchedAt = now
	return k.searchErr
}

// Follow reads the keys again if current, the id of the hub's signing key, is not the known one.
// The former key may have leaked, and its tokens may have to be rejected. The argument read is the
// number of [Keys.Reads] before current was read.
func (k *Keys) Follow(ctx context.Context, current string, read uint64) error {
	k.mu.RLock()
	known, loaded := k.current, k.loadedAs
	k.mu.RUnlock()
	if current == known || read <= loaded {
		return nil
	}

	return k.load(ctx)
}

// Accepts reports whether tokens that the key signed are accepted.
func (k *Keys) Accepts(id string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	key, ok := k.keys[id]
	return ok && (key.expires.IsZero() || k.store.Now().Before(key.expires))
}

func isID(s string) bool {
	_, err := ids.Parse(s)
	return err == nil
}

// published returns the keys whose tokens may still be valid, oldest first.
func (k *Keys) published() []signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var all []signingKey
	for _, key := range k.keys {
		if key.expires.IsZero() || k.store.Now().Before(key.expires) {
			all = append(all, key)
		}
	}

	slices.SortFunc(all, func(a, b signingKey) int { return a.created.Compare(b.created) })
	return all
}

// reload reads the keys again if they are older than keyReload. It changes nothing.
func (k *Keys) reload(ctx context.Context) error {
	k.mu.RLock()
	age := k.store.Now().Sub(k.loadedAt)
	k.mu.RUnlock()
	if age >= 0 && age < keyReload {
		return nil
	}

	return k.load(ctx)
}

// Ready is renew before a token is signed. If the current key cannot be opened, the previous one
// signs for as long as its tokens are accepted until they expire.
func (k *Keys) Ready(ctx context.Context) error {
	read := k.reads.Add(1)
	current, err := currentKey(ctx, k.store.Read())
	if err != nil {
		return err
	}

	if err := k.Follow(ctx, current, read); err != nil {
		return err
	}

	if err := k.renew(ctx); err != nil {
		return err
	}

	k.mu.RLock()
	defer k.mu.RUnlock()
	if !k.signing.expires.IsZero() && k.signing.expires.Before(k.store.Now().Add(Life)) {
		return k.shut
	}

	return nil
}

// Opened returns an error if a key in the database cannot be opened with the keyring.
func (k *Keys) Opened(ctx context.Context) error {
	if err := k.reload(ctx); err != nil {
		return err
	}

	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.shut
}

// load reads all keys. If the database is unavailable, the known keys stay. If a key cannot be
// opened, its known public part stays: the keyring of this replica may be older than that of the
// others.
func (k *Keys) load(ctx context.Context) error {
	at, read := k.store.Now(), k.reads.Add(1)
	all, err := readKeys(ctx, k.store.Read(), k.scan)
	if err != nil {
		return err
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	if read < k.loadedAs {
		return nil // a later load has ended
	}

	keys := map[string]signingKey{}
	var signing signingKey
	var current string
	var shut error
	for _, key := range all {
		if !key.retired {
			current = key.id
		}

		if key.shut != nil {
			shut = key.shut
			if known, ok := k.keys[key.id]; ok {
				key.public = known.public
			}

			if len(key.public) != ed25519.PublicKeySize {
				continue
			}
		}

		keys[key.id] = key
		if key.private != nil {
			signing = key
		}
	}

	if shut != nil {
		if signing.id == "" { // the known key continues to sign, with its current expiry
			signing = k.signing
			signing.expires = keys[signing.id].expires
			if _, ok := keys[signing.id]; !ok {
				signing.expires = at
			}
		}

		if age := at.Sub(k.warnedAt); age < 0 || age >= keyReload {
			k.warnedAt = at
			k.store.Logger.Warn("a signing key cannot be opened: give this replica the keys that the others have", "err", shut)
		}
	}

	k.keys = keys
	k.signing = signing
	k.current = current
	k.shut = shut
	k.loadedAt = at
	k.loadedAs = read
	return nil
}

func (k *Keys) scan(row db.Scanner) (signingKey, error) {
	var (
		sealed           []byte
		created          int64
		retired, expires sql.NullInt64
	)
	var key signingKey
	if err := row.Scan(&key.id, (*[]byte)(&key.public), &sealed, &created, &retired, &expires); err != nil {
		return key, err
	}

	key.created, key.expires, key.retired = db.Time(created), db.NullTime(expires), retired.Valid
	switch {
	case len(key.public) != ed25519.PublicKeySize:
		key.shut = fmt.Errorf("signing key %s is damaged", key.id)
	case !retired.Valid:
		key.private, key.shut = k.open(key, sealed)
	}

	return key, nil
}

func (k *Keys) open(key signingKey, sealed []byte) (ed25519.PrivateKey, error) {
	seed, err := k.store.Keyring.Open(sealed, sealedKey.Place(key.id))
	if err == nil && len(seed) != ed25519.SeedSize {
		err = secret.ErrCorrupt
	}

	if err != nil {
		return nil, fmt.Errorf("open signing key %s: %w", key.id, err)
	}

	private := ed25519.NewKeyFromSeed(seed)
	if !key.public.Equal(private.Public()) {
		return nil, fmt.Errorf("open signing key %s: %w", key.id, errKeyPair)
	}

	return private, nil
}

var errKeyPair = errors.New("its public part belongs to another key")

// Sealed returns the column of the private keys.
func Sealed() []store.Sealed { return []store.Sealed{sealedKey} }

var sealedKey = store.Sealed{Table: "signing_keys", Column: "private_sealed", ID: "id", Required: true}
