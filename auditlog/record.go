package auditlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

// Status is the outcome of an action.
type Status string

// The statuses.
const (
	Success Status = "success"
	Failure Status = "failure"
	Partial Status = "partial"
)

// Limits in characters. Longer texts are truncated; a longer tenant is rejected.
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

// Event contains the fields that all actions have. TenantID is required: at most 256 bytes of UTF-8
// without NUL. The other texts are truncated to 128 characters (UserName), 512 (UserAgent), 64
// (TargetType, RemoteIP) or 256 (the rest). NUL and bytes that are not UTF-8 are replaced by
// U+FFFD.
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

// Record is an event of a declared action that can be appended. [Action.Record] returns it; stores
// reject the zero Record.
type Record struct {
	event  Event
	action string
	detail json.RawMessage
	err    error
}

// TenantID returns the tenant of the log that the record belongs to.
func (r Record) TenantID() string { return r.event.TenantID }

// Err returns the reason why stores reject the record, or nil. A store checks all records of a call
// before it appends one.
func (r Record) Err() error {
	if r.err != nil {
		return fmt.Errorf("record action %s: %w", cmp.Or(r.action, "?"), r.err)
	}
	if r.action == "" {
		return errors.New("record action: it is not declared")
	}
	return nil
}

// Entry returns the record as an entry without ID, CreatedAt and Hash, which the store assigns.
func (r Record) Entry() Entry {
	category, _, _ := strings.Cut(r.action, ".")
	return Entry{
		TenantID: r.event.TenantID, UserID: r.event.UserID, UserName: r.event.UserName,
		Category: category, Action: r.action,
		TargetType: r.event.TargetType, TargetID: r.event.TargetID, TargetName: r.event.TargetName,
		Status: r.event.Status, Detail: r.detail, RemoteIP: r.event.RemoteIP, UserAgent: r.event.UserAgent,
	}
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

// storable reports whether every database accepts s as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// cut returns the first most characters of s, in a form that every database accepts.
func cut(s string, most int) string {
	if !storable(s) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	return excerpt.Characters(s, most)
}
