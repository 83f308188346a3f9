package auditlog

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

// maxActionName bounds the name of an action, in bytes.
const maxActionName = 64

// Action is a declared action whose entries have a D as their detail. Stores reject the records of
// the zero Action.
type Action[D any] struct {
	name string
	_    [0]*D // actions of different details do not convert into each other
}

// Define declares an action. Its name is "<category>.<verb>"; each part consists of lower-case
// letters, digits and underscores, and begins with a letter.
//
// D is [None], or a struct that fixes what a detail can hold: exported fields of booleans, numbers,
// strings, [time.Time], and structs, pointers, slices and arrays of these. Types with arbitrary
// contents are rejected: maps, interfaces, functions, channels, byte slices, types with their own
// JSON or text encoding (such as json.RawMessage), types that contain themselves, embedded
// pointers, and fields without a JSON encoding.
//
// The verb "prune_audit" belongs to D = [Pruning], and that D to no other verb: [Verify] recognizes
// the entries by it.
//
// Define panics for any other name or D: it is called with constants when a program starts.
func Define[D any](name string) Action[D] {
	if err := checkActionName(name); err != nil {
		panic(fmt.Sprintf("auditlog: define action %q: %v", name, err))
	}

	if prunes := reflect.TypeFor[D]() == reflect.TypeFor[Pruning](); prunes != isPruning(name) {
		panic(fmt.Sprintf("auditlog: define action %q: the verb %s and the detail Pruning belong together", name, pruneVerb))
	}

	if t := reflect.TypeFor[D](); t != reflect.TypeFor[None]() {
		if err := checkDetail(t); err != nil {
			panic(fmt.Sprintf("auditlog: define action %s: detail %s", name, err))
		}
	}

	return Action[D]{name: name}
}

// Name returns the name of the action.
func (a Action[D]) Name() string { return a.name }

// Record returns a record for [Store.Append]. [Record.Err] and Append return an error for an
// invalid event, such as an unknown status.
func (a Action[D]) Record(e Event, detail D) Record {
	r := Record{action: a.name}
	if r.err = r.set(e); r.err != nil {
		return r
	}

	if _, none := any(detail).(None); !none {
		r.detail, r.err = encodeDetail(&detail)
	}

	return r
}

// None is the detail of an action without a detail: null.
type None struct{}

// Change contains the old and the new value of a field, for the details of updates.
type Change[T any] struct {
	From T `json:"from"`
	To   T `json:"to"`
}

// Diff returns the change of a field, or nil if from and to are deeply equal.
func Diff[T any](from, to T) *Change[T] {
	if reflect.DeepEqual(from, to) {
		return nil
	}

	return &Change[T]{From: from, To: to}
}

func checkActionName(name string) error {
	if len(name) > maxActionName {
		return fmt.Errorf("longer than %d bytes", maxActionName)
	}

	category, verb, _ := strings.Cut(name, ".")
	if !isWord(category) || !isWord(verb) {
		return fmt.Errorf(`want "<category>.<verb>" of lower-case letters, digits and underscores`)
	}

	return nil
}

func isWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', i > 0 && (c >= '0' && c <= '9' || c == '_'):
		default:
			return false
		}
	}

	return s != ""
}

// encodeDetail encodes with json.Marshal, whose output is unchanged when it is embedded in other
// JSON. The hash covers these bytes.
func encodeDetail[D any](detail *D) (json.RawMessage, error) {
	text, err := json.Marshal(detail)
	if err == nil && len(text) > maxDetailString { // shorter text holds no longer string
		whole := *detail
		cutStrings(reflect.ValueOf(&whole).Elem(), maxDetailString, math.MaxInt)
		text, err = json.Marshal(&whole)
	}

	for n := maxDetailString; err == nil && len(text) > maxDetail && n > 0; n /= 4 {
		whole := *detail
		cutStrings(reflect.ValueOf(&whole).Elem(), n, n)
		text, err = json.Marshal(&whole)
	}

	if err != nil {
		return nil, fmt.Errorf("encode detail: %w", err)
	}

	return text, nil
}

const (
	maxDetailString = 4096      // characters of one string in a detail; longer ones are truncated
	maxDetail       = 256 << 10 // bytes of a detail's JSON; longer ones have shorter strings and lists
)

// checkDetail returns an error if a type can have arbitrary contents. The error begins with the
// path to the field.
func checkDetail(t reflect.Type) error {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return fmt.Errorf("%s is not a struct", t)
	}

	return checkClosed(t, t.String(), nil)
}

func checkClosed(t reflect.Type, path string, within []reflect.Type) error {
	switch t {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[*time.Time](), reflect.TypeFor[Head]():
		return nil // their own JSON is known
	}

	if slices.Contains(within, t) {
		return fmt.Errorf("%s: %s contains itself", path, t)
	}

	if writesItself(t) {
		return fmt.Errorf("%s: %s has its own JSON or text encoding", path, t)
	}

	within = append(slices.Clip(within), t)
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Pointer:
		return checkClosed(t.Elem(), path, within)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return fmt.Errorf("%s: %s contains bytes, which no reader understands", path, t)
		}

		return checkClosed(t.Elem(), path+"[]", within)
	case reflect.Struct:
		for f := range t.Fields() {
			if err := checkField(f, path+"."+f.Name, within); err != nil {
				return err
			}
		}

		return nil
	default:
		return fmt.Errorf("%s: a %s can have arbitrary contents", path, t.Kind())
	}
}

func checkField(f reflect.StructField, path string, within []reflect.Type) error {
	switch tag := f.Tag.Get("json"); {
	case f.Anonymous && f.Type.Kind() == reflect.Pointer:
		return fmt.Errorf("%s: is an embedded pointer", path)
	case tag == "-", !f.IsExported() && !f.Anonymous:
		return fmt.Errorf("%s: would not be recorded", path)
	case slices.Contains(strings.Split(tag, ",")[1:], "string"):
		return fmt.Errorf("%s: has the option string", path)
	}

	return checkClosed(f.Type, path, within)
}

func writesItself(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{t, reflect.PointerTo(t)}, func(t reflect.Type) bool {
		return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	})
}

// cutStrings truncates the strings in v, which is addressable, to a number of characters, and the
// lists to a number of elements. It copies the memory that v shares with other values.
func cutStrings(v reflect.Value, characters, elements int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(cut(v.String(), characters))
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			cutStrings(own.Elem(), characters, elements)
			v.Set(own)
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}

		n := min(v.Len(), elements)
		own := reflect.MakeSlice(v.Type(), n, n)
		reflect.Copy(own, v)
		v.Set(own)
		cutElements(v, characters, elements)
	case reflect.Array:
		cutElements(v, characters, elements)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[Head]() {
			return
		}

		for _, field := range v.Fields() {
			cutStrings(field, characters, elements)
		}

	default: // numbers and booleans
	}
}

func cutElements(v reflect.Value, characters, elements int) {
	for i := range v.Len() {
		cutStrings(v.Index(i), characters, elements)
	}
}

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

// WithTarget returns the event with its target.
func (e Event) WithTarget(kind, id, name string) Event {
	e.TargetType = kind
	e.TargetID = id
	e.TargetName = name
	return e
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
	case !auditstore.Storable(id):
		return fmt.Errorf("tenant %q is not UTF-8, or has a NUL", id)
	}

	return nil
}

// cut returns the first most characters of s, in a form that every database accepts.
func cut(s string, most int) string {
	if !auditstore.Storable(s) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}

	for i := range s {
		if most == 0 {
			return s[:i]
		}

		most--
	}

	return s
}
