package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Entry is one entry of a log. In its JSON the id is a decimal string, because numbers above 2^53-1
// lose precision, detail is an object or null, and createdAt is in UTC with six digits of a second.
type Entry struct {
	ID         uint64          `json:"id,string"`
	TenantID   string          `json:"tenantId"`
	UserID     string          `json:"userId"`
	UserName   string          `json:"userName"`
	Category   string          `json:"category"`
	Action     string          `json:"action"`
	TargetType string          `json:"targetType"`
	TargetID   string          `json:"targetId"`
	TargetName string          `json:"targetName"`
	Status     Status          `json:"status"`
	Detail     json.RawMessage `json:"detail"` // the exact text that was hashed; nil without a detail
	RemoteIP   string          `json:"remoteIp"`
	UserAgent  string          `json:"userAgent"`
	CreatedAt  time.Time       `json:"createdAt"` // microseconds

	// Hash is the hash of the entry, 32 bytes. Exports contain it, pages do not.
	Hash []byte `json:"-"`
}

// timeLayout always has six digits, so that texts sort like times.
const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

// MarshalJSON implements [json.Marshaler].
func (e Entry) MarshalJSON() ([]byte, error) { return e.marshal("") }

// AppendNDJSON appends a line of an export: the JSON of the entry with its hexadecimal hash as the
// last field.
func (e Entry) AppendNDJSON(b []byte) ([]byte, error) {
	line, err := e.marshal(hex.EncodeToString(e.Hash))
	if err != nil {
		return b, fmt.Errorf("encode audit entry %d: %w", e.ID, err)
	}
	return append(append(b, line...), '\n'), nil
}

func (e Entry) marshal(hash string) ([]byte, error) {
	type fields Entry
	return json.Marshal(struct {
		fields
		CreatedAt string `json:"createdAt"`
		Hash      string `json:"hash,omitempty"`
	}{fields(e), e.CreatedAt.UTC().Format(timeLayout), hash})
}

// Sum returns the hash of the entry if it follows the entry whose hash is previous. It covers all
// fields but Hash. The package comment describes the encoding.
func (e Entry) Sum(previous []byte) []byte {
	texts := [...]string{e.TenantID, e.UserID, e.UserName, e.Category, e.Action, e.TargetType, e.TargetID, e.TargetName, string(e.Status)}
	b := make([]byte, 0, 1024)
	if previous == nil {
		b = append(b, make([]byte, sha256.Size)...)
	}
	b = append(b, previous...)
	b = append(b, "auditlog/1\n"...)
	b = binary.BigEndian.AppendUint64(b, e.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(e.CreatedAt.UnixMicro())) // in two's complement
	for _, s := range texts {
		b = appendText(b, s)
	}
	if e.Detail == nil {
		b = appendText(b, "null")
	} else {
		b = appendText(b, e.Detail)
	}
	b = appendText(b, e.RemoteIP)
	b = appendText(b, e.UserAgent)
	sum := sha256.Sum256(b)
	return sum[:]
}

func appendText[T string | json.RawMessage](b []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) //nolint:gosec // texts are bounded far below 4 GiB
}
