package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

func TestNewRejects(t *testing.T) {
	for name, cfg := range map[string]mcp.Config{
		"an entry of Env without =":       {Env: []string{"PATH"}},
		"an entry of Env without a name":  {Env: []string{"=x"}},
		"an entry of Env with a NUL":      {Env: []string{"A=\x00"}},
		"a working directory of relative": {CWD: "here"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcp.New(cfg)
			require.ErrorContains(t, err, "mcp: ")
		})
	}
}

func TestOpenRejects(t *testing.T) {
	command := agent.MCPServer{Transport: "stdio", Command: "x"}
	secret := map[string]agent.Secret{"Authorization": "s3cret\n", "A=": "s3cret"}
	for name, row := range map[string]struct {
		server string
		def    agent.MCPServer
		want   string
	}{
		"no name":                    {"", command, "a name has letters"},
		"a name with __":             {"a__b", command, "a name has letters"},
		"a name with a dot":          {"a.b", command, "a name has letters"},
		"a name of too many letters": {strings.Repeat("n", 57), command, "at most 56"},
		"no transport":               {"a", agent.MCPServer{Command: "x"}, "unknown transport"},
		"no command":                 {"a", agent.MCPServer{Transport: "stdio"}, "command is missing"},
		"stdio with a url": {"a", agent.MCPServer{Transport: "stdio", Command: "x", URL: "http://s3cret"},
			"not allowed with transport stdio"},
		"stdio with headers":     {"a", agent.MCPServer{Transport: "stdio", Command: "x", Headers: secret}, "not allowed"},
		"an argument with a NUL": {"a", agent.MCPServer{Transport: "stdio", Command: "x", Args: []string{"\x00"}}, "NUL"},
		"a variable with =":      {"a", agent.MCPServer{Transport: "stdio", Command: "x", Env: secret}, `"A="`},
		"http with a command": {"a", agent.MCPServer{Transport: "http", URL: "http://x", Command: "x"},
			"not allowed with transport http"},
		"http without a url":      {"a", agent.MCPServer{Transport: "http"}, "not an http or https address"},
		"a url of another scheme": {"a", agent.MCPServer{Transport: "sse", URL: "file:///s3cret"}, "not an http or https address"},
		"a url without a host": {"a", agent.MCPServer{Transport: "sse", URL: "http://:80/s3cret"},
			"not an http or https address"},
		"a url that is none": {"a", agent.MCPServer{Transport: "sse", URL: "http://s3cret:x y/"},
			"not an http or https address"},
		"a header with a line end": {"a", agent.MCPServer{Transport: "http", URL: "http://x", Headers: secret}, "is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newWorld(t).Open(row.server, row.def, agent.Limits{}, nil)
			require.ErrorContains(t, err, "open mcp server ")
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}

// Secrets that the server repeats, and addresses in errors of net/http, are redacted.
func TestErrorsHideSecrets(t *testing.T) {
	const token = "t0ken-of-the-team"
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"repeated by the server": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no user %s at %s"}}`, token, r.URL.RawQuery)
		}, "no user *** at ***"},
		"in an address": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"a status of note": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, token, http.StatusUnauthorized) },
			"Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.open(agent.MCPServer{
				Transport: "http", URL: web(t, row.handler).URL + "?key=" + token + "2",
				Headers: map[string]agent.Secret{"Authorization": "Bearer " + token},
			})
			_, err := s.Tools(t.Context())
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error()+w.log.String(), token)
			require.Equal(t, tool.Failed, s.Status())
		})
	}
}

func TestConfiguredClientIsUsed(t *testing.T) {
	used := false
	w := newWorld(t, func(c *mcp.Config) {
		base := http.Transport{DisableKeepAlives: true}
		c.HTTPClient = &http.Client{Timeout: 1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			used = true
			return base.RoundTrip(r)
		})}
	})
	s := w.open(overHTTP(web(t, rawHandler(lists(entry("a", "")))).URL))
	require.Len(t, list(t, s), 1)
	require.True(t, used)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Tools(ctx)
	require.NoError(t, err, "the tools are available without waiting")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
