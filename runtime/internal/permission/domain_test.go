package permission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

func TestDomains(t *testing.T) {
	for _, row := range []struct {
		pattern, url    string
		allowed, denied bool
	}{
		{"domain:example.com", "https://example.com/x?y#z", true, true},
		{"domain:example.com", "http://EXAMPLE.com:8080", true, true},
		{"domain:Example.COM.", "HTTPS://example.com./", true, true},
		{"domain:example.com", "https://www.example.com/", false, true},
		{"domain:example.com", "https://badexample.com/", false, false},
		{"domain:example.com", "https://example.com.evil.org/", false, false},
		{"domain:example.com", "https://evil.org/example.com", false, false},
		{"domain:example.com", "https://evil.org/?u=https://example.com", false, false},
		{"domain:example.com", "https://evil.org#@example.com", false, false},
		{"domain:example.com", "https://example.com@evil.org/", false, true}, // not certain
		{"domain:example.com", "https://user:pw@example.com/", false, true},
		{"domain:example.com", "https://evil.org\\@example.com/", false, true},
		{"domain:example.com", "https://ｅxample.com/", false, true},
		{"domain:example.com", "https://example。com/", false, true},
		{"domain:kim.com", "https://k\u0130m.com/", false, true}, // its lower case is ASCII, and the host another one
		{"domain:kim.com", "https://k%C4%B0m.com/", false, true},
		{"domain:kim.com", "https://\u212Aim.com/", false, true},
		{"domain:example.com", "https://ex%61mple.com/", false, true},
		{"domain:example.com", "https://example..com/", false, true},
		{"domain:example.com", "https:example.com", false, true},
		{"domain:example.com", "//example.com/", false, true},
		{"domain:example.com", "ftp://example.com/", false, true},
		{"domain:example.com", " https://example.com/", false, true},
		{"domain:example.com", "https:///x", false, true},
		{"domain:example.com", "", false, true},
		{"domain:example.com", "https://[::1]/", false, false},
		{"domain:xn--mnchen-3ya.de", "https://xn--mnchen-3ya.de/", true, true},
		{"domain:*.example.com", "https://a.b.example.com/", true, true},
		{"domain:*.example.com", "https://example.com/", false, false},
		{"domain:*.example.com", "https://badexample.com/", false, false},
		{"domain:*", "https://any.host/", true, true},
		{"domain:*", "https://az09-_.com/", true, true},
		{"domain:*", "https:///", false, true},
		{"domain:*.example.com", "https://.example.com/", false, true},
		{"domain:az09-_.com", "https://AZ09-_.com/", true, true},
		{"domain:*", "https://a`.com/", false, true},
		{"domain:*", "https://a{.com/", false, true},
		{"domain:*", "https://a;.com/", false, true},
		{"*", "https://any.host/", true, true},
		{"*", "https://a@any.host/", false, true},
	} {
		t.Run(row.pattern+" "+row.url, func(t *testing.T) {
			rule := []string{"WebFetch(" + row.pattern + ")"}
			in := input("url", row.url)
			require.Equal(t, row.allowed, check(policy(t, permission.ModeBypass, rule, nil), "WebFetch", false, in) == nil)
			require.Equal(t, row.denied, check(policy(t, permission.ModeBypass, nil, rule), "WebFetch", false, in) != nil)
		})
	}
}

func TestNamePatterns(t *testing.T) {
	for tool, key := range map[string]string{"Skill": "skill", "Task": "subagent_type"} {
		p := policy(t, "", []string{tool + "(review)", tool + "(docs-*)"}, []string{tool + "(docs-private)"})
		for name, want := range map[string]error{
			"review": nil, "docs-a": nil, "docs-private": permission.ErrDenied, "\tdocs-private\n": permission.ErrDenied,
			"Review": permission.ErrPattern, "reviewer": permission.ErrPattern, "": permission.ErrPattern,
		} {
			require.Equal(t, want, check(p, tool, true, input(key, name)), name)
		}
		every := policy(t, "", []string{tool + "(*)"}, nil)
		require.NoError(t, check(every, tool, true, input(key, "review")))
		for _, in := range []string{`{}`, `{"` + key + `":""}`, `{"` + key + `":"review","` + key + `":1}`, `""`} {
			require.Equal(t, permission.ErrPattern, check(every, tool, true, []byte(in)), in)
		}
	}
}
