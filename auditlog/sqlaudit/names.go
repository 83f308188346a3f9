package sqlaudit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/seed93082962/agenthost/auditlog"
)

// Kinds of keys in the table audit_keys.
const (
	kindCategory = 1
	kindAction   = 2
	kindActor    = 3
	kindUser     = 4
)

// name is the meaning of a key. An actor is a user within one category.
type name struct {
	kind     int
	category string // of an actor
	text     string // the category, the action, or the name of a user
	userID   string // of a user or an actor
}

// user returns the user of an actor.
func (n name) user() name { return name{kind: kindUser, text: n.text, userID: n.userID} }

// namesOf returns the names of an entry in the order of their columns.
func namesOf(e *auditlog.Entry) [3]name {
	return [3]name{
		{kind: kindCategory, text: e.Category},
		{kind: kindAction, text: e.Action},
		{kind: kindActor, category: e.Category, text: e.UserName, userID: e.UserID},
	}
}

// digest identifies the name within its tenant. It is short enough for any index.
func (n name) digest() string {
	b := []byte{byte(n.kind)} //nolint:gosec // one of four
	for _, s := range [...]string{n.category, n.text, n.userID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // texts of records are bounded
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}
