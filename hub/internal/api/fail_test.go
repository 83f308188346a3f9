package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

var (
	errDatabase = errors.New("dial 10.0.0.9:5432: refused")
	errSecret   = errors.New("open /etc/shadow: hunter2")
)

func translate(err error) *wire.Error {
	if errors.Is(err, errDatabase) {
		return &wire.Error{Code: wire.Unavailable, RetryAfter: 1500 * time.Millisecond}
	}
	return nil
}

// Every code of the contract, with its status.
var codes = map[wire.Code]int{
	"invalid_request": 400, "validation_failed": 400,
	"unauthenticated": 401, "token_expired": 401, "token_revoked": 401, "invalid_credentials": 401, "refresh_reused": 401,
	"forbidden": 403, "account_disabled": 403, "builtin_readonly": 403,
	"not_found": 404, "invite_invalid": 404,
	"conflict": 409, "name_taken": 409, "already_initialized": 409, "tool_in_use": 409, "in_use": 409, "default_tenant_in_use": 409, "last_admin": 409,
	"agent_not_deployed": 409, "agent_deployed": 409, "deployment_key_taken": 409,
	"method_not_allowed": 405, "precondition_failed": 412, "payload_too_large": 413, "unsupported_media": 415, "artifact_invalid": 422,
	"rate_limited": 429, "internal_error": 500,
	"upstream_failed": 502, "gateway_failed": 502, "deployer_unavailable": 503, "unavailable": 503,
}

func TestCodes(t *testing.T) {
	messages := map[string]wire.Code{}
	for c, status := range codes {
		t.Run(string(c), func(t *testing.T) {
			w := send(handler(t, nil, failing(fmt.Errorf("do it: %w", c))), "GET", "/", "")
			f := faultOf(t, w)
			require.Equal(t, status, w.Code)
			require.Equal(t, string(c), f.Code)
			require.Nil(t, f.Data)
			require.NotContains(t, messages, f.Message, "two codes say the same")
			messages[f.Message] = c
			require.Equal(t, status == 401, w.Header().Get("Www-Authenticate") == "Bearer")
			require.Equal(t, status == 429 || status == 503, w.Header().Get("Retry-After") == "1")
			require.Equal(t, status, code.Status(c))

			err := error(&wire.Error{Code: c, Message: "Because.", Cause: errSecret})
			require.ErrorIs(t, err, c)
			require.ErrorIs(t, err, errSecret)
			require.NotErrorIs(t, err, wire.Code("other"))
			w = send(handler(t, nil, failing(err)), "GET", "/", "")
			require.Equal(t, "Because.", faultOf(t, w).Message)
			require.NotContains(t, w.Body.String(), "hunter2")
		})
	}
}

func TestErrors(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		status int
		code   wire.Code
		data   map[string]any
		header http.Header
	}{
		"any other error":          {errSecret, 500, code.InternalError, nil, nil},
		"a code that is none":      {wire.Code("oops"), 500, "oops", nil, nil},
		"of the database":          {fmt.Errorf("read user: %w", errDatabase), 503, wire.Unavailable, nil, http.Header{"Retry-After": {"2"}}},
		"with data":                {&wire.Error{Code: code.ToolInUse, Data: wire.ErrorData{Agents: []string{"a"}}}, 409, code.ToolInUse, map[string]any{"agents": []any{"a"}}, nil},
		"fields":                   {api.Fields{"name": "must not be empty"}, 400, wire.ValidationFailed, map[string]any{"fields": map[string]any{"name": "must not be empty"}}, nil},
		"a while":                  {&wire.Error{Code: wire.RateLimited, RetryAfter: 15 * time.Minute}, 429, wire.RateLimited, nil, http.Header{"Retry-After": {"900"}}},
		"a moment":                 {&wire.Error{Code: wire.RateLimited, RetryAfter: 1}, 429, wire.RateLimited, nil, http.Header{"Retry-After": {"1"}}},
		"a status of its own":      {&wire.Error{Code: code.UpstreamFailed, Status: 504}, 504, code.UpstreamFailed, nil, nil},
		"a canceled query":         {fmt.Errorf("read: %w", context.Canceled), 500, code.InternalError, nil, nil}, // of a client that is there
		"a body that is too large": {&http.MaxBytesError{Limit: 3}, 413, code.PayloadTooLarge, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := send(handler(t, nil, failing(row.err)), "GET", "/", "")
			f := faultOf(t, w)
			require.Equal(t, row.status, w.Code)
			require.Equal(t, string(row.code), f.Code)
			require.Equal(t, row.data, f.Data)
			for name, values := range row.header {
				require.Equal(t, values, w.Header()[name])
			}
			require.NotContains(t, w.Body.String(), "hunter2")
			require.NotContains(t, w.Body.String(), "10.0.0.9")
		})
	}
}

func TestLogOfErrors(t *testing.T) {
	for name, row := range map[string]struct {
		handle func(http.ResponseWriter, *http.Request) error
		text   string
		times  int
		level  string
	}{
		"internal":   {func(http.ResponseWriter, *http.Request) error { return errSecret }, "hunter2", 1, "ERROR"},
		"a database": {func(http.ResponseWriter, *http.Request) error { return errDatabase }, "10.0.0.9", 1, "WARN"},
		"a panic":    {func(http.ResponseWriter, *http.Request) error { panic(errSecret) }, "hunter2", 1, "ERROR"},
		"a refusal": {func(http.ResponseWriter, *http.Request) error {
			return &wire.Error{Code: wire.Conflict, Cause: errSecret}
		}, "hunter2", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			logger, log := logged()
			h := handler(t, func(c *api.Config) { c.Logger = logger }, routeWith("GET", "/users/:id", row.handle))
			w := send(h, "GET", "/users/7", "")
			f := faultOf(t, w)
			require.NotContains(t, w.Body.String(), row.text)
			require.Equal(t, row.times, strings.Count(log.String(), row.text), log)
			if row.times > 0 {
				require.Contains(t, log.String(), "level="+row.level)
			}
			for line := range strings.Lines(log.String()) {
				require.Contains(t, line, "request_id="+f.RequestID)
			}
		})
	}
}

func TestADisconnectIsNotAnError(t *testing.T) {
	logger, log := logged()
	h := handler(t, func(c *api.Config) { c.Logger = logger }, routeWith("GET", "/", func(_ http.ResponseWriter, r *http.Request) error {
		return r.Context().Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log)
	require.Contains(t, log.String(), "status=503")
}

func TestAnErrorAfterTheFirstByteClosesTheConnection(t *testing.T) {
	logger, log := logged()
	server := httptest.NewServer(handler(t, func(c *api.Config) { c.Logger = logger }, routeWith("GET", "/", func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
		return errSecret
	})))
	defer server.Close()
	res, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	_, err = io.ReadAll(res.Body)
	require.Error(t, err)
	require.NoError(t, res.Body.Close())
	server.Close()
	require.Equal(t, 1, strings.Count(log.String(), "hunter2"))
}

func TestAnErrorRemovesHeadersOfThePreparedResponse(t *testing.T) {
	w := send(handler(t, nil, routeWith("GET", "/", func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("ETag", `"1"`)
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Type", "application/zip")
		h.Set("Content-Disposition", "attachment")
		h.Set("Content-Length", "7")
		return wire.NotFound
	})), "GET", "/", "")
	faultOf(t, w)
	for _, name := range []string{"Etag", "Content-Encoding", "Content-Disposition"} {
		require.NotContains(t, w.Header(), name)
	}
}

func TestFail(t *testing.T) {
	h := handler(t, nil, routeWith("GET", "/", func(w http.ResponseWriter, r *http.Request) error {
		api.Fail(w, r, wire.Conflict)
		return nil
	}))
	require.Equal(t, "conflict", faultOf(t, send(h, "GET", "/", "")).Code)

	w := httptest.NewRecorder()
	api.Fail(w, httptest.NewRequest(http.MethodGet, "/", nil), errSecret) // no handler of New
	require.Equal(t, 500, w.Code)
	require.NotContains(t, w.Body.String(), "hunter2")
}
