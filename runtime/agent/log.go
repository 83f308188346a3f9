package agent

import (
	"fmt"
	"log/slog"
	"strings"
)

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
