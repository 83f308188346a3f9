package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/seed93082962/agenthost/hub/api"
)

// cost is the work of one argon2id hash.
type cost struct {
	memory  uint32 // KiB
	time    uint32 // passes
	threads uint8
}

// passwordCost is OWASP's second choice for argon2id: 16 ms of one core. Hashes with another cost are made anew at the next
// login.
var passwordCost = cost{memory: 19 * 1024, time: 2, threads: 1}

const (
	saltLen = 16
	hashLen = 32
)

var errPasswordHash = errors.New("stored password hash is malformed")

const (
	maxWaiting  = 64 // for a slot
	maxHashWait = 2 * time.Second
)

// hasher bounds how many hashes are made at once: each takes a core and 19 MiB. Half of the cores are left to those who
// are signed in, however many try to be. The queue is bounded too: who cannot be served soon is told so at once.
type hasher struct {
	slots   chan struct{}
	waiting chan struct{}
	decoy   string // a hash of nothing that anyone knows
}

func newHasher() *hasher {
	h := &hasher{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), waiting: make(chan struct{}, maxWaiting)}
	h.decoy = encodeHash(passwordCost, random(saltLen), random(hashLen))
	return h
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// derive does the work, once there is a slot for it. Where there are too many before it, the error is 503.
func (h *hasher) derive(ctx context.Context, password string, salt []byte, c cost, length uint32) ([]byte, error) {
	if err := h.acquire(ctx); err != nil {
		return nil, fmt.Errorf("hash password: %w", err)
	}
	defer func() { <-h.slots }()
	return argon2.IDKey([]byte(password), salt, c.time, c.memory, c.threads, length), nil
}

func (h *hasher) acquire(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		return errHasherBusy
	}
	patience := time.NewTimer(maxHashWait)
	defer patience.Stop()
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-patience.C:
		return errHasherBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errHasherBusy = &api.Error{
	Code: api.Unavailable, Message: "Too many sign in at this moment: try again.", RetryAfter: maxHashWait,
	Cause: errors.New("too many passwords to hash at once"),
}

// hashPassword makes the PHC string of a password. It is called before a transaction begins: a hash takes longer than any
// lock should be held.
func (s *Service) hashPassword(ctx context.Context, password string) (string, error) {
	salt := random(saltLen)
	key, err := s.hasher.derive(ctx, password, salt, passwordCost, hashLen)
	if err != nil {
		return "", err
	}
	return encodeHash(passwordCost, salt, key), nil
}

// verifyPassword compares a password with a stored hash. Where there is none, it does the same work and answers false.
func (s *Service) verifyPassword(ctx context.Context, stored, password string) (bool, error) {
	known := stored != ""
	if !known {
		stored = s.hasher.decoy
	}
	c, salt, want, err := decodeHash(stored)
	if err != nil {
		return false, err
	}
	got, err := s.hasher.derive(ctx, password, salt, c, uint32(len(want))) //nolint:gosec // decodeHash bounds it
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

// outdated reports whether a stored hash was made with another cost than hashes are now.
func outdated(stored string) bool {
	c, _, want, err := decodeHash(stored)
	return err != nil || c != passwordCost || len(want) != hashLen
}

var b64 = base64.RawStdEncoding.Strict()

func encodeHash(c cost, salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memory, c.time, c.threads,
		b64.EncodeToString(salt), b64.EncodeToString(key))
}

// decodeHash reads a PHC string of argon2id. A cost beyond 1 GiB or 100 passes is taken for damage.
func decodeHash(s string) (c cost, salt, key []byte, err error) {
	fields := strings.Split(s, "$")
	if len(fields) != 6 || fields[0] != "" || fields[1] != "argon2id" || fields[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return c, nil, nil, errPasswordHash
	}
	if _, err = fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &c.memory, &c.time, &c.threads); err != nil {
		return c, nil, nil, errPasswordHash
	}
	salt, err = b64.DecodeString(fields[4])
	if err == nil {
		key, err = b64.DecodeString(fields[5])
	}
	const mostMemory, mostTime = 1 << 20, 100
	if err != nil || len(salt) < 8 || len(key) < 16 || len(key) > 64 ||
		c.memory < 8 || c.memory > mostMemory || c.time < 1 || c.time > mostTime || c.threads < 1 {
		return c, nil, nil, errPasswordHash
	}
	return c, salt, key, nil
}
