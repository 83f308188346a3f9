package agent

import (
	"fmt"
	"log/slog"
	"strings"
)

// The LogValue methods show what an operator may want to see of a configuration in a log, and
// nothing that may hold a secret. slog asks only the value it was given: it takes the elements
// of a slice, and structs of others around these types, through JSON.

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
