package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// users are the callers of the tests, by their tokens.
var users = map[string]api.Caller{
	"admin-token":      {UserID: "u1", UserName: "ada", TenantID: "t1", RoleNow: rbac.Admin, Kind: api.Session, SessionID: "s1"},
	"maintainer-token": {UserID: "u2", UserName: "max", TenantID: "t1", RoleNow: rbac.Maintainer, Kind: api.CLI, TokenID: "c1"},
	"member-token":     {UserID: "u3", UserName: "mel", TenantID: "t1", RoleNow: rbac.Member, Kind: api.Session, SessionID: "s3"},
	"no-role-token":    {UserID: "u4", UserName: "nil", TenantID: "t1"},
	"nobody-token":     {RoleNow: rbac.Admin},
}

// authenticate accepts the tokens of users, and returns an error for three tokens that are no
// longer valid.
func authenticate(r *http.Request) (api.Caller, error) {
	switch token := api.Bearer(r); token {
	case "disabled-token":
		return api.Caller{}, api.Denied(api.Caller{UserID: "u6", UserName: "meg", TenantID: "t1", RoleNow: rbac.Member}, code.AccountDisabled)
	case "expired-token":
		return api.Caller{}, wire.TokenExpired
	case "revoked-token":
		return api.Caller{}, wire.TokenRevoked
	case "database-token":
		return api.Caller{}, errDatabase
	default:
		if caller, ok := users[token]; ok {
			return caller, nil
		}
		return api.Caller{}, wire.Unauthenticated
	}
}

// handler returns a handler of routes with a configuration for tests; change may be nil.
func handler(t testing.TB, change func(*api.Config), routes ...api.Route) http.Handler {
	t.Helper()
	cfg := api.Config{Authenticate: authenticate, Translate: translate}
	if change != nil {
		change(&cfg)
	}
	h, err := api.New(cfg, routes...)
	require.NoError(t, err)
	return h
}

// route returns an open route that responds with its path pattern and parameters.
func route(method, path string) api.Route {
	return api.Route{Method: method, Path: path, Access: api.Open, Handle: func(w http.ResponseWriter, r *http.Request) error {
		values := []string{method + " " + path}
		for segment := range strings.SplitSeq(path, "/") {
			if name, ok := strings.CutPrefix(segment, ":"); ok {
				values = append(values, r.PathValue(name))
			}
		}
		return api.Encode(w, http.StatusOK, values)
	}}
}

// routeWith returns a route with the given handler.
func routeWith(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
	return api.Route{Method: method, Path: path, Access: api.Open, Handle: handle}
}

// failing is a route whose handler returns err.
func failing(err error) api.Route {
	return routeWith("GET", "/", func(http.ResponseWriter, *http.Request) error { return err })
}

// send sends one request directly to the handler. Headers are pairs.
func send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// fault is the body of an error.
type fault struct {
	Code      string         `json:"code"`
	Message   string         `json:"message"`
	Data      map[string]any `json:"data"`
	RequestID string         `json:"requestId"`
}

// faultOf parses the body of an error strictly, and checks the common fields.
func faultOf(t testing.TB, w *httptest.ResponseRecorder) fault {
	t.Helper()
	require.Equal(t, "application/json", w.Header().Get("Content-Type"), w.Body)
	decoder := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	decoder.DisallowUnknownFields()
	var f fault
	require.NoError(t, decoder.Decode(&f), w.Body)
	require.ErrorIs(t, decoder.Decode(new(any)), io.EOF)
	require.NotEmpty(t, f.Message)
	require.NotEmpty(t, f.RequestID)
	require.Equal(t, w.Header().Get("X-Request-Id"), f.RequestID)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return f
}

// logged is a log for handlers, and what it has.
func logged() (*slog.Logger, *logtest.Buffer) {
	out := &logtest.Buffer{}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})), out
}
