package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/internal/ids"
)

const (
	keyLife   = 90 * 24 * time.Hour // a key signs for so long
	keyReload = time.Minute         // so old may be what a replica knows of the keys
	keySearch = time.Second         // so often at most is one looked for that is not known, whoever asks

	searchWithin = 5 * time.Second

	// A retired key may go on signing in a replica that has not reloaded yet; then its last token has to expire.
	keyGrace = keyReload + accessTTL + time.Minute
)

// signingKey is a row of the table. A key without an expiry is not retired; private is nil in all but the one that signs.
type signingKey struct {
	id      string
	public  ed25519.PublicKey
	private ed25519.PrivateKey
	created time.Time
	expires time.Time
	shut    error // why the private part, or the whole key, is of no use
}

// keyStore knows the keys that stand in the database, which all replicas share.
type keyStore struct {
	db      *db.DB
	keyring *secret.Keyring
	now     func() time.Time
	logger  *slog.Logger
	issuer  string // the instance id

	mu       sync.RWMutex // guards what follows
	keys     map[string]signingKey
	signing  signingKey
	shut     error // why the key that all replicas sign with cannot be opened here, where it cannot
	loadedAt time.Time
	warnedAt time.Time

	searching  sync.Mutex // guards the rest
	searchedAt time.Time
	searchErr  error
}

// signer is the key that new tokens are signed with.
func (k *keyStore) signer() signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.signing
}

// public finds a key by its id, in the database too: another replica may just have made it. It answers nil for one that
// is not the hub's, or no more.
func (k *keyStore) public(ctx context.Context, id string) (ed25519.PublicKey, error) {
	for range 2 {
		k.mu.RLock()
		key, ok := k.keys[id]
		k.mu.RUnlock()
		if ok && (key.expires.IsZero() || k.now().Before(key.expires)) {
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

// search reads the keys because of one that is not known, which anybody can name: those who come at once, or within a
// second after it, share what it found.
func (k *keyStore) search(ctx context.Context) error {
	k.searching.Lock()
	defer k.searching.Unlock()
	now := k.now()
	if age := now.Sub(k.searchedAt); age >= 0 && age < keySearch {
		return k.searchErr
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), searchWithin) // it is not the first one's alone
	defer cancel()
	k.searchErr = k.load(ctx)
	k.searchedAt = now
	return k.searchErr
}

func isID(s string) bool {
	_, err := ids.Parse(s)
	return err == nil
}

// published are the keys with which tokens may have been signed that still live, oldest first.
func (k *keyStore) published() []signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var all []signingKey
	for _, key := range k.keys {
		if key.expires.IsZero() || k.now().Before(key.expires) {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b signingKey) int { return a.created.Compare(b.created) })
	return all
}

// refresh keeps what is known of the keys from getting old, and makes a new key when its time has come. Nothing is to
// be done but once a minute.
func (k *keyStore) refresh(ctx context.Context) error {
	k.mu.RLock()
	age := k.now().Sub(k.loadedAt)
	k.mu.RUnlock()
	if _, due := k.due(); age >= 0 && age < keyReload && !due {
		return nil
	}
	if err := k.load(ctx); err != nil {
		return err
	}
	if former, due := k.due(); due {
		return k.rotate(ctx, former)
	}
	return nil
}

// due tells which key has signed for long enough; "" is none. A replica that cannot open the key of the others leaves it to
// them: they could not open the next one.
func (k *keyStore) due() (former string, due bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.signing.id, k.shut == nil && !k.now().Before(k.signing.created.Add(keyLife))
}

// ready is refresh for those who sign. Where the key of the other replicas cannot be opened, the one before it serves as
// long as the tokens that it signs are accepted to their end.
func (k *keyStore) ready(ctx context.Context) error {
	if err := k.refresh(ctx); err != nil {
		return err
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	if !k.signing.expires.IsZero() && k.signing.expires.Before(k.now().Add(accessTTL)) {
		return k.shut
	}
	return nil
}

// rotate puts a new key in the place of the one that is called former. Where another replica has done so already, its
// key is taken. At first, former is "".
func (k *keyStore) rotate(ctx context.Context, former string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make signing key: %w", err)
	}
	id := ids.New()
	sealed := k.keyring.Seal(private.Seed(), keyPlace(id))
	err = k.db.Tx(ctx, func(tx *sql.Tx) error {
		// All replicas wait here for each other.
		if _, err := tx.ExecContext(ctx, `UPDATE instance SET value = value WHERE name = $1`, instanceID); err != nil {
			return err
		}
		now := db.Micros(k.now())
		if former != "" {
			_, err := tx.ExecContext(ctx, `UPDATE signing_keys SET retired_at = $1, expires_at = $2 WHERE id = $3 AND retired_at IS NULL`,
				now, db.Micros(k.now().Add(keyGrace)), former)
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (id, public_key, private_sealed, created_at)
			SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT 1 FROM signing_keys WHERE retired_at IS NULL)`, id, []byte(public), sealed, now)
		return err
	})
	if err != nil {
		return fault("store signing key", err)
	}
	return k.load(ctx)
}

// load reads all keys. An unavailable database leaves those that are known, and a key that cannot be opened leaves what is
// known of it, as the others: the keyring of this replica may have been left behind when the others' was changed.
func (k *keyStore) load(ctx context.Context) error {
	at := k.now()
	all, err := collect(ctx, k.db.Read(), "read signing keys", k.scan,
		`SELECT id, public_key, private_sealed, created_at, retired_at, expires_at FROM signing_keys`)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	keys := map[string]signingKey{}
	var signing signingKey
	var shut error
	for _, key := range all {
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
		if signing.id == "" { // what is known signs on, as what it is by now
			signing = k.signing
			signing.expires = keys[signing.id].expires
			if _, ok := keys[signing.id]; !ok {
				signing.expires = at
			}
		}
		if age := at.Sub(k.warnedAt); age < 0 || age >= keyReload {
			k.warnedAt = at
			k.logger.Warn("a signing key cannot be opened: give this replica the keys that the others have", "err", shut)
		}
	}
	k.keys, k.signing, k.shut, k.loadedAt = keys, signing, shut, at
	return nil
}

func (k *keyStore) scan(row scanner) (key signingKey, err error) {
	var (
		sealed           []byte
		created          int64
		retired, expires sql.NullInt64
	)
	if err := row.Scan(&key.id, (*[]byte)(&key.public), &sealed, &created, &retired, &expires); err != nil {
		return key, err
	}
	key.created, key.expires = db.Time(created), timeOf(expires)
	switch {
	case len(key.public) != ed25519.PublicKeySize:
		key.shut = fmt.Errorf("signing key %s is damaged", key.id)
	case !retired.Valid:
		key.private, key.shut = k.open(key, sealed)
	}
	return key, nil
}

func (k *keyStore) open(key signingKey, sealed []byte) (ed25519.PrivateKey, error) {
	seed, err := k.keyring.Open(sealed, keyPlace(key.id))
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

func keyPlace(id string) []byte { return secret.AAD("signing_keys", "private_sealed", id) }
