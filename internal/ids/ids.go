// Package ids generates and parses ids. All ids of this module are UUIDs in the 36-character form
// and in lower case.
package ids

import (
	"errors"

	"github.com/google/uuid"
)

// ID is a UUID as a comparable value.
type ID = uuid.UUID

// ErrMalformed is the error of [Parse] for text that is not in the 36-character form.
var ErrMalformed = errors.New("malformed UUID")

// New returns an id that sorts by its time of creation (version 7).
func New() string { return uuid.Must(uuid.NewV7()).String() }

// Random returns an id without information, not even about its time (version 4).
func Random() ID { return uuid.New() }

// Parse parses the 36-character form in upper or lower case.
func Parse(s string) (ID, error) {
	// uuid.Parse accepts three more forms with other lengths.
	if len(s) != 36 {
		return ID{}, ErrMalformed
	}

	id, err := uuid.Parse(s)
	if err != nil {
		return ID{}, ErrMalformed
	}

	return id, nil
}

// Plain reports whether s has 1 to most characters, all of them A-Z, a-z, 0-9, '.', '_' or '-'.
func Plain(s string, most int) bool {
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}

	return 0 < len(s) && len(s) <= most
}

// ValidSession reports whether a client may send id as the id of a session. It must match
// ^[A-Za-z0-9._-]{1,128}$ and must be neither "." nor "..".
func ValidSession(id string) bool { return Plain(id, 128) && id != "." && id != ".." }
