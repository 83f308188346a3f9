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

	"golang.org/x/crypto/argon2"
)

// cost is the work of one argon2id hash.
type cost struct {
	memory  uint32 // KiB
	time    uint32 // passes
	threads uint8
}

// passwordCost is OWASP's second choice for argon2id: 16 ms of one core. Hashes with another cost
// are replaced at the next login.
var passwordCost = cost{memory: 19 * 1024, time: 2, threads: 1}

const (
	saltLen = 16
	hashLen = 32
)

var errPasswordHash = errors.New("stored password hash is malformed")

// hasher bounds how many hashes are computed at the same time: each takes a core and 19 MiB. Half
// of the cores are left to signed-in users.
type hasher struct {
	queue *hashQueue
	cost  cost   // of new hashes
	decoy string // the hash of an unknown password
}

func newHasher(c cost) *hasher {
	h := &hasher{queue: newHashQueue(max(1, runtime.GOMAXPROCS(0)/2)), cost: c}
	h.decoy = encodeHash(c, random(saltLen), random(hashLen))
	return h
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// derive waits for a slot and computes a hash.
func (h *hasher) derive(ctx context.Context, s share, password string, salt []byte, c cost, length uint32) ([]byte, error) {
	if err := h.queue.acquire(ctx, s); err != nil {
		return nil, fmt.Errorf("hash password: %w", err)
	}
	defer h.queue.release()
	return argon2.IDKey([]byte(password), salt, c.time, c.memory, c.threads, length), nil
}

// hashPassword returns the PHC string of a password. It is called before a transaction begins: a
// hash takes longer than any lock should be held.
func (s *Service) hashPassword(ctx context.Context, of share, password string) (string, error) {
	salt := random(saltLen)
	key, err := s.hasher.derive(ctx, of, password, salt, s.hasher.cost, hashLen)
	if err != nil {
		return "", err
	}
	return encodeHash(s.hasher.cost, salt, key), nil
}

// verifyPassword compares a password with a stored hash. Without a stored hash it does the same
// work and returns false.
func (s *Service) verifyPassword(ctx context.Context, of share, stored, password string) (bool, error) {
	known := stored != ""
	if !known {
		stored = s.hasher.decoy
	}
	c, salt, want, err := decodeHash(stored)
	if err != nil {
		return false, err
	}
	got, err := s.hasher.derive(ctx, of, password, salt, c, uint32(len(want))) //nolint:gosec // decodeHash bounds it
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

// outdated reports whether a stored hash has another cost than new ones.
func (h *hasher) outdated(stored string) bool {
	c, _, want, err := decodeHash(stored)
	return err != nil || c != h.cost || len(want) != hashLen
}

var b64 = base64.RawStdEncoding.Strict()

func encodeHash(c cost, salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memory, c.time, c.threads,
		b64.EncodeToString(salt), b64.EncodeToString(key))
}

// decodeHash parses a PHC string of argon2id. It rejects a cost above 1 GiB or 100 passes as
// damage.
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
