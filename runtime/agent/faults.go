package agent

import (
	"fmt"
	"slices"
	"strings"
)

// absent is the function has for a value that was not decoded from a file: a zero value means the
// default.
func absent(string) bool { return false }

// rules validate the values of settings. A zero value is valid if it means a default, but not if
// the file contains the key.
type rules struct {
	has    func(key string) bool
	faults Faults
}

func (r *rules) required(key, value string) bool {
	if value == "" && !r.has(key) {
		r.faults.add(key, "is missing")
		return false
	}

	return r.notEmpty(key, value)
}

func (r *rules) notEmpty(key, value string) bool {
	if value == "" && r.has(key) {
		r.faults.add(key, "must not be empty")
		return false
	}

	return true
}

func (r *rules) positive(key string, value int64) {
	if value < 0 || value == 0 && r.has(key) {
		r.faults.add(key, "must be greater than zero")
	}
}

func (r *rules) oneOf(key, value string, known []string) bool {
	if slices.Contains(known, value) {
		return true
	}

	r.faults.add(key, "%s", unknownValue(value, known))
	return false
}

func unknownValue(value string, known []string) string {
	return fmt.Sprintf("%q is not one of %s", value, strings.Join(known, ", "))
}
