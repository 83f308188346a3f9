package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Secret is a setting that a file may take from the environment, as ${NAME}, and that is
// therefore never printed: every verb of fmt and every slog handler shows *** in its place.
// string(s) is the value.
//
// It marshals to the value itself, because a file with *** in it would be of no use: do not log
// the JSON of a File. A ${ in the value is written as $${, so that what came from a stranger
// stays text when the file is read, and never reaches into the environment of the reader.
type Secret string

const redacted = "***"

func (s Secret) shown() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format implements fmt.Formatter: a String method would not stand in for verbs such as %d.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.shown()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.shown()) }

// MarshalText returns the value with ${ escaped.
func (s Secret) MarshalText() ([]byte, error) {
	return []byte(strings.ReplaceAll(string(s), "${", "$${")), nil
}

// UnmarshalText reads what MarshalText returns. It fails on ${NAME}, which only [Parse] can look up.
func (s *Secret) UnmarshalText(text []byte) error {
	v, err := expand(string(text), func(string) (string, bool) { return "", false })
	*s = Secret(v)
	return err
}

// expand replaces ${NAME} by what lookup says and $${ by ${, once: what lookup returned is not
// looked at again. Its errors name variables, never values.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			out.WriteString(s)
			return out.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			out.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		out.WriteString(s[:i])
		name, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			return "", errors.New("${ without }; write $${ for a literal ${")
		}
		if !isVariable(name) {
			return "", errors.New("only the name of an environment variable may stand between ${ and }; write $${ for a literal ${")
		}
		value, ok := lookup(name)
		if !ok {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		out.WriteString(value)
		s = rest
	}
}

func isVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
