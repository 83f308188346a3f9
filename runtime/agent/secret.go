package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/seed93082962/agenthost/internal/agentvalue"
)

// Secret is a setting that a file can take from the environment as ${NAME}. It is never printed:
// every verb of fmt and every slog handler prints *** instead. string(s) is the value.
//
// It marshals to the value, because a file with *** would be useless: do not log the JSON of a
// File. A ${ in the value is encoded as $${, so that a value from an untrusted source is not
// expanded when the file is parsed.
type Secret string

const redacted = "***"

func (s Secret) masked() string {
	if s == "" {
		return ""
	}

	return redacted
}

// Format implements fmt.Formatter: verbs such as %d do not call a String method.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.masked()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.masked()) }

// MarshalText returns the value with ${ escaped.
func (s Secret) MarshalText() ([]byte, error) {
	return []byte(strings.ReplaceAll(string(s), "${", "$${")), nil
}

// UnmarshalText decodes the output of MarshalText. It fails on ${NAME}: only [Parse] expands
// variables.
func (s *Secret) UnmarshalText(text []byte) error {
	v, err := expand(string(text), false, func(string) (string, bool) { return "", false })
	*s = Secret(v)
	return err
}

// expand replaces ${NAME} by the value of the variable, and $${ by ${. With defaults, it replaces
// ${NAME:-default} by the default if the variable is empty or not set. Values are not expanded
// again. Errors contain names of variables, never values.
func expand(s string, defaults bool, lookup func(string) (string, bool)) (string, error) {
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

		other, hasDefault := "", false
		if defaults {
			name, other, hasDefault = strings.Cut(name, ":-")
		}

		if !isVariable(strings.TrimPrefix(name, agentvalue.OwnVariable)) {
			return "", errors.New("${...} must contain the name of an environment variable; write $${ for a literal ${")
		}

		if strings.Contains(other, "${") {
			return "", fmt.Errorf("the default of ${%s} must not contain a variable", name)
		}

		value, ok := lookup(name)
		if hasDefault && (!ok || value == "") {
			value = other
		} else if !ok && value == "" {
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

// The LogValue methods return the parts of a configuration that are useful in a log and contain no
// secret. slog calls them only for a value that is logged directly. Elements of a slice and fields
// of other structs are logged as JSON.

// LogValue implements slog.LogValuer.
func (f File) LogValue() slog.Value {
	ids := make([]string, len(f.Agents))
	for i := range f.Agents {
		ids[i] = f.Agents[i].ID
	}

	return slog.GroupValue(slog.String("agents", strings.Join(ids, ",")), slog.Any("auth", f.Auth))
}

// LogValue implements slog.LogValuer.
func (a Auth) LogValue() slog.Value { return slog.GroupValue(slog.Int("keys", len(a.APIKeys))) }

// LogValue implements slog.LogValuer.
func (a Agent) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", a.ID), slog.String("model", a.Model), slog.Any("provider", a.Provider))
}

// LogValue implements slog.LogValuer.
func (p Provider) LogValue() slog.Value {
	return slog.GroupValue(slog.String("protocol", p.Protocol), slog.Any("baseUrl", p.BaseURL), slog.Any("apiKey", p.APIKey))
}

// LogValue implements slog.LogValuer.
func (s MCPServer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("transport", s.Transport), slog.String("command", s.Command))
}

// Format implements fmt.Formatter.
func (s MCPServer) Format(f fmt.State, _ rune) { fmt.Fprint(f, "{"+s.Transport+" "+s.Command+"}") }
