package auditlog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
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
		cutStrings(reflect.ValueOf(&whole).Elem())
		text, err = json.Marshal(&whole)
	}
	if err != nil {
		return nil, fmt.Errorf("encode detail: %w", err)
	}
	if len(text) > maxDetail {
		return nil, fmt.Errorf("encode detail: %d bytes, more than %d", len(text), maxDetail)
	}
	return text, nil
}
