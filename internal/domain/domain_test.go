package domain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/domain"
)

func TestMatches(t *testing.T) {
	for _, row := range []struct {
		pattern, host, port string
		want                bool
	}{
		{"example.com", "example.com", "443", true},
		{"Example.COM.", "example.com", "443", true},
		{"example.com", "www.example.com", "443", false},
		{"example.com", "example.com.evil.org", "443", false},
		{"example.com", "notexample.com", "443", false},
		{"example.com", "example.com", "22", false},
		{"*.example.com", "www.example.com", "443", true},
		{"*.example.com", "a.b.example.com", "443", true},
		{"*.example.com", "example.com", "443", false},
		{"*.example.com", "notexample.com", "443", false},
		{"example.com:8443", "example.com", "8443", true},
		{"example.com:8443", "example.com", "443", false},
		{"192.0.2.1", "192.0.2.1", "443", true},
	} {
		p, err := domain.Parse(row.pattern)
		require.NoError(t, err)
		require.Equal(t, row.want, p.Matches(row.host, row.port, "443"), "%+v", row)
	}
}

func TestParseRejects(t *testing.T) {
	for _, text := range []string{
		"", "*", "*.", "*.*.com", "a b", "https://example.com", "example.com/path", "user@example.com", "exämple.com",
		"example.com:", "example.com:0", "example.com:65536", "example.com:https", "[::1]:443", "*.192.0.2.1", "a\x00b",
		strings.Repeat("a", 254),
	} {
		_, err := domain.Parse(text)
		require.Error(t, err, "%q", text)
	}
}

// The lower case of a letter outside ASCII may be in ASCII.
func TestLower(t *testing.T) {
	for in, want := range map[string]string{
		"API.Example.COM": "api.example.com", "ap\u0130.example": "ap\u0130.example", "\u212A.example": "\u212A.example", "\xff.A": "\xff.a", "": "",
	} {
		require.Equal(t, want, domain.Lower(in))
	}
}
