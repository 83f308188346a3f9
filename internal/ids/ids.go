// Package ids makes the ids of this project: all of them are UUIDs, in the 36-character form
// and in lower case.
package ids

import (
	"errors"

	"github.com/google/uuid"
)

// ID is a UUID as a value that can be compared and be the key of a map.
type ID = uuid.UUID

// ErrMalformed is what [Parse] answers to anything that is not the 36-character form.
var ErrMalformed = errors.New("malformed UUID")

// New makes an id that sorts by the time it was made (version 7).
func New() string { return uuid.Must(uuid.NewV7()).String() }

// Random makes an id that tells nothing, not even when it was made (version 4).
func Random() ID { return uuid.New() }

// Parse reads the 36-character form, in upper or lower case, and no other.
func Parse(s string) (ID, error) {
	// uuid.Parse takes three more forms, told apart by their length.
	if len(s) != 36 {
		return ID{}, ErrMalformed
	}
	id, err := uuid.Parse(s)
	if err != nil {
		return ID{}, ErrMalformed
	}
	return id, nil
}

// Plain reports whether s is made of 1 to most of the characters A-Z, a-z, 0-9, '.', '_' and '-'.
func Plain(s string, most int) bool {
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return 0 < len(s) && len(s) <= most
}
