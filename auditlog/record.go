package auditlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is how an action ended.
type Status string

// The statuses that there are.
const (
	Success Status = "success"
	Failure Status = "failure"
	Partial Status = "partial"
)

// How many characters of each text are kept. What is longer is cut; a tenant is an address and is refused instead.
const (
	maxTenantID   = 256 // bytes
	maxUserID     = 256
	maxUserName   = 128
	maxTargetType = 64
	maxTargetID   = 256
	maxTargetName = 256
	maxRemoteIP   = 64
	maxUserAgent  = 512
)

// Event is what any action has: who did it to what, from where, and how it ended. TenantID is required: at most 256
// bytes of UTF-8 without NUL. The other texts are cut at 128 characters (UserName), 512 (UserAgent), 64 (TargetType,
// RemoteIP) or 256 (the rest), and what is not UTF-8, and NUL, becomes U+FFFD.
type Event struct {
	TenantID   string
	UserID     string
	UserName   string
	TargetType string
	TargetID   string
	TargetName string
	Status     Status // Defaults to Success.
	RemoteIP   string
	UserAgent  string
}

// Record is one thing that happened, ready to be appended. [Action.Record] makes it; the zero Record is refused.
type Record struct {
	event  Event
	action string
	detail json.RawMessage
	err    error
}

// TenantID returns the tenant to whose log the record belongs.
func (r Record) TenantID() string { return r.event.TenantID }

// Err tells why no store takes the record. A store asks before it appends anything of the same call.
func (r Record) Err() error {
	if r.err != nil {
		return fmt.Errorf("record action %s: %w", cmp.Or(r.action, "?"), r.err)
	}
	if r.action == "" {
		return errors.New("record action: it is not declared")
	}
	return nil
}

// Seal makes the record the entry that follows last in the log of its tenant. CreatedAt is now in microseconds, or that
// of last where the clock went back. It is for stores, which call it with the tenant's head held.
func (r Record) Seal(last Head, now time.Time) (Entry, error) {
	if err := r.Err(); err != nil {
		return Entry{}, err
	}
	at := now.UTC().Truncate(time.Microsecond)
	if at.Before(last.CreatedAt) {
		at = last.CreatedAt.UTC()
	}
	category, _, _ := strings.Cut(r.action, ".")
	e := Entry{
		ID: last.ID + 1, TenantID: r.event.TenantID, UserID: r.event.UserID, UserName: r.event.UserName,
		Category: category, Action: r.action,
		TargetType: r.event.TargetType, TargetID: r.event.TargetID, TargetName: r.event.TargetName,
		Status: r.event.Status, Detail: r.detail, RemoteIP: r.event.RemoteIP, UserAgent: r.event.UserAgent, CreatedAt: at,
	}
	e.Hash = e.Sum(last.Hash)
	return e, nil
}

func (r *Record) set(e Event) error {
	e.Status = cmp.Or(e.Status, Success)
	r.event = Event{
		TenantID:   e.TenantID,
		UserID:     cut(e.UserID, maxUserID),
		UserName:   cut(e.UserName, maxUserName),
		TargetType: cut(e.TargetType, maxTargetType),
		TargetID:   cut(e.TargetID, maxTargetID),
		TargetName: cut(e.TargetName, maxTargetName),
		Status:     e.Status,
		RemoteIP:   cut(e.RemoteIP, maxRemoteIP),
		UserAgent:  cut(e.UserAgent, maxUserAgent),
	}
	switch e.Status {
	case Success, Failure, Partial:
	default:
		return fmt.Errorf("unknown status %q", e.Status)
	}
	return checkTenant(e.TenantID)
}

func checkTenant(id string) error {
	switch {
	case id == "":
		return errors.New("no tenant")
	case len(id) > maxTenantID:
		return fmt.Errorf("tenant of %d bytes, more than %d", len(id), maxTenantID)
	case !storable(id):
		return fmt.Errorf("tenant %q is not UTF-8, or has a NUL", id)
	}
	return nil
}

// storable tells what PostgreSQL takes as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// cut keeps the first most characters, in a form that every database takes.
func cut(s string, most int) string {
	if !storable(s) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i]
		}
		n++
	}
	return s
}
