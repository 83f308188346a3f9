package auditlogtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
)

// The expected results are computed here by the simplest code.

func naiveFits(f auditlog.Filter, e auditlog.Entry) bool {
	if f.Category != "" && e.Category != f.Category || f.Action != "" && e.Action != f.Action {
		return false
	}

	if !f.From.IsZero() && e.CreatedAt.Before(f.From) || !f.To.IsZero() && e.CreatedAt.After(f.To) {
		return false
	}

	if !utf8.ValidString(f.User) { // part of a character
		return false
	}

	user := small(f.User)
	return strings.Contains(small(e.UserName), user) || strings.Contains(small(e.UserID), user)
}

func small(s string) string {
	for _, letter := range "abcdefghijklmnopqrstuvwxyz" {
		s = strings.ReplaceAll(s, string(letter+'A'-'a'), string(letter))
	}

	return s
}

func naiveSum(previous []byte, e auditlog.Entry) string {
	number := func(n uint64, size int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[size-1-i] = byte(n >> (8 * i) & 0xff)
		}

		return b
	}
	detail := string(e.Detail)
	if e.Detail == nil {
		detail = "null"
	}

	parts := [][]byte{previous, []byte("auditlog/1\n"), number(e.ID, 8), number(uint64(e.CreatedAt.UnixMicro()), 8)}
	for _, s := range []string{e.TenantID, e.UserID, e.UserName, e.Category, e.Action, e.TargetType, e.TargetID, e.TargetName,
		string(e.Status), detail, e.RemoteIP, e.UserAgent} {
		parts = append(parts, number(uint64(len(s)), 4), []byte(s))
	}

	sum := sha256.Sum256(bytes.Join(parts, nil))
	return hex.EncodeToString(sum[:])
}
