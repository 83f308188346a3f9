// Package password hashes the passwords of users, and bounds how often one can be guessed.
//
//	passwords := password.New(password.Config{Store: store})
//	attempt := password.AttemptOf(caller, username).On(device)
//	err := passwords.Start(ctx, attempt)
//	if err != nil { ... } // 429: too many attempts have failed
//	right, err := passwords.Verify(ctx, attempt.Party(), storedHash, given)
//
// Hashes are those of argon2id. Half of the cores compute them; of the others that wait, no account
// and no network has more than its share.
//
// Within 15 minutes, an account may fail 10 times on a device on which it has signed in. Without a
// device, it may fail 5 times from an address and 100 times from all, and a network 100 times. Then
// the response is 429 for every name, and nothing is compared.
package password

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/seed93082962/agenthost/hub/internal/store"
)

// Config configures [New].
type Config struct {
	// Store has a database with the migrations of package user applied. Required.
	Store *store.Store

	// Cost is the work of a new hash. Defaults to OWASP's second choice for argon2id: 16 ms of one
	// core.
	Cost Cost
}

// Cost is the work of one argon2id hash. Hashes with another cost are replaced at the next login.
type Cost struct {
	Memory  uint32 // KiB
	Passes  uint32
	Threads uint8
}

var defaultCost = Cost{Memory: 19 * 1024, Passes: 2, Threads: 1}

const (
	saltLen = 16
	hashLen = 32

	minLength, maxLength = 8, 128 // characters
)

var errHash = errors.New("stored password hash is malformed")

// Service is safe for concurrent use.
type Service struct {
	store *store.Store
	queue *queue // each hash takes a core and 19 MiB
	cost  Cost
	decoy string // the hash of an unknown password
}

// New returns a Service. Half of the cores are left to signed-in users.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, queue: newQueue(max(1, runtime.GOMAXPROCS(0)/2)), cost: cmp.Or(cfg.Cost, defaultCost)}
	s.decoy = encodeHash(s.cost, random(saltLen), random(hashLen))
	return s
}

// Load returns the number of hashes that are computed and of those that wait.
func (s *Service) Load() (int, int) { return s.queue.load() }

// Check returns the fault of a new password of a user, or "". Every character is permitted and
// counts as one.
func Check(username, password string) string {
	n := utf8.RuneCountInString(password)
	switch {
	case n < minLength || n > maxLength:
		return "must have 8 to 128 characters"
	case strings.EqualFold(strings.TrimSpace(password), username):
		return "must not be the username"
	case isCommon(password):
		return "must not be one of the 10,000 most common passwords"
	}

	return ""
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// derive waits for a slot and computes a hash.
func (s *Service) derive(ctx context.Context, p Party, password string, salt []byte, c Cost, length uint32) ([]byte, error) {
	release, err := s.queue.acquire(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("hash password: %w", err)
	}
	defer release()
	key := argon2.IDKey([]byte(password), salt, c.Passes, c.Memory, c.Threads, length)
	collect()
	return key, nil
}

// smallHeap is the live heap, in bytes, below which the memory of a hash is collected when the hash
// ends, in a few milliseconds. Otherwise that of three hashes in a row would be the largest part of
// an idle hub. A larger heap has space for them.
const smallHeap = 64 << 20

func collect() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Uint64() < smallHeap {
		runtime.GC()
	}
}

// Hash returns the PHC string of a password. Call it before a transaction begins: a hash takes
// longer than any lock should be held.
func (s *Service) Hash(ctx context.Context, p Party, password string) (string, error) {
	salt := random(saltLen)
	key, err := s.derive(ctx, p, password, salt, s.cost, hashLen)
	if err != nil {
		return "", err
	}

	return encodeHash(s.cost, salt, key), nil
}

// Verify compares a password with a stored hash. Without a stored hash it does the same work and
// returns false.
func (s *Service) Verify(ctx context.Context, p Party, stored, password string) (bool, error) {
	known := stored != ""
	if !known {
		stored = s.decoy
	}

	h, err := decodeHash(stored)
	if err != nil {
		return false, err
	}

	got, err := s.derive(ctx, p, password, h.salt, h.cost, uint32(len(h.key))) // decodeHash bounds it
	if err != nil {
		return false, err
	}

	return subtle.ConstantTimeCompare(got, h.key) == 1 && known, nil
}

// Outdated reports whether a stored hash has another cost than new ones.
func (s *Service) Outdated(stored string) bool {
	h, err := decodeHash(stored)
	return err != nil || h.cost != s.cost || len(h.key) != hashLen
}

var b64 = base64.RawStdEncoding.Strict()

func encodeHash(c Cost, salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.Memory, c.Passes, c.Threads,
		b64.EncodeToString(salt), b64.EncodeToString(key))
}

// decoded is the content of a PHC string.
type decoded struct {
	cost      Cost
	salt, key []byte
}

// decodeHash parses a PHC string of argon2id. It rejects a cost above 1 GiB or 100 passes as
// damage.
func decodeHash(text string) (decoded, error) {
	fields := strings.Split(text, "$")
	if len(fields) != 6 || fields[0] != "" || fields[1] != "argon2id" || fields[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return decoded{}, errHash
	}

	var h decoded
	if _, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &h.cost.Memory, &h.cost.Passes, &h.cost.Threads); err != nil {
		return h, errHash
	}

	var err error
	h.salt, err = b64.DecodeString(fields[4])
	if err == nil {
		h.key, err = b64.DecodeString(fields[5])
	}

	const mostMemory, mostPasses = 1 << 20, 100
	if err != nil || len(h.salt) < 8 || len(h.key) < 16 || len(h.key) > 64 ||
		h.cost.Memory < 8 || h.cost.Memory > mostMemory || h.cost.Passes < 1 || h.cost.Passes > mostPasses || h.cost.Threads < 1 {
		return h, errHash
	}

	return h, nil
}

// The list has the 10,000 most common passwords of at least 8 characters, in lower case. They are
// the first ones of passwords.json of the npm package @zxcvbn-ts/language-common 4.1.3, which is
// sorted by frequency: Copyright (c) 2012-2016 Dan Wheeler and Dropbox, Inc., (c) 2021 @zxcvbn-ts,
// MIT License.
//
//go:embed passwords.txt.gz
var commonList []byte

// commonPasswords reads the list when the first password is set.
var commonPasswords = sync.OnceValue(func() map[string]bool {
	list, err := gzip.NewReader(bytes.NewReader(commonList))
	var text []byte
	if err == nil {
		text, err = io.ReadAll(list)
	}

	if err != nil {
		panic(err) // the list is part of the program
	}

	all := map[string]bool{}
	for _, word := range strings.Fields(string(text)) {
		all[word] = true
	}

	return all
})

// isCommon reports whether a password is on the list, in any letter case and without the white
// space around it.
func isCommon(password string) bool {
	return commonPasswords()[strings.ToLower(strings.TrimSpace(password))]
}
