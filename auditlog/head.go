package auditlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Head identifies the last entry of a log, or the last entry that was pruned: the entry that the
// next one follows. The zero Head is that of a log without entries. Its JSON is
// {"id":"7","hash":"<hex>","at":"<time>"}.
type Head struct {
	ID        uint64
	Hash      []byte // 32 bytes, or nil if ID is 0
	CreatedAt time.Time
}

// Head returns the entry as the head that the next entry follows.
func (e Entry) Head() Head { return Head{ID: e.ID, Hash: e.Hash, CreatedAt: e.CreatedAt} }

type headJSON struct {
	ID   uint64 `json:"id,string"`
	Hash string `json:"hash"`
	At   string `json:"at"`
}

// MarshalJSON implements [json.Marshaler].
func (h Head) MarshalJSON() ([]byte, error) {
	return json.Marshal(headJSON{h.ID, hex.EncodeToString(h.link()), h.CreatedAt.UTC().Format(timeLayout)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Head) UnmarshalJSON(b []byte) error {
	var in headJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("decode head: %w", err)
	}
	hash, err := hex.DecodeString(in.Hash)
	if err != nil {
		return fmt.Errorf("decode head: %w", err)
	}
	at, err := time.Parse(timeLayout, in.At)
	if err != nil {
		return fmt.Errorf("decode head: %w", err)
	}
	*h = Head{ID: in.ID, Hash: hash, CreatedAt: at}
	return nil
}

// link returns the hash that the entry after h is hashed with.
func (h Head) link() []byte {
	if h.Hash == nil {
		return make([]byte, sha256.Size)
	}
	return h.Hash
}

// parseHead parses "<id>:<hash>" with a decimal id and 64 hexadecimal digits. CreatedAt stays zero.
func parseHead(text string) (h Head, ok bool) {
	id, digits, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || !isDigits(id) || len(digits) != hex.EncodedLen(sha256.Size) {
		return Head{}, false
	}
	hash, err := hex.DecodeString(digits)
	return Head{ID: n, Hash: hash}, err == nil
}
