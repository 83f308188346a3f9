package api_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestIfMatch(t *testing.T) {
	for name, row := range map[string]struct {
		values []string
		want   string // a version, "none" or "rejected"
	}{
		"no header":            {nil, "none"},
		"any version":          {[]string{" * "}, "none"},
		"unquoted":             {[]string{"7"}, "7"},
		"quoted":               {[]string{` "7" `}, "7"},
		"weak":                 {[]string{`W/"7"`}, "rejected"},
		"a list":               {[]string{`"7", "8"`}, "rejected"},
		"two headers":          {[]string{`"7"`, `"8"`}, "rejected"},
		"one quote":            {[]string{`"7`}, "rejected"},
		"a sign":               {[]string{"+7"}, "rejected"},
		"empty":                {[]string{""}, "rejected"},
		"not a number":         {[]string{`"abc"`}, "rejected"},
		"more than an integer": {[]string{"9223372036854775808"}, "rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPut, "/", nil)
			r.Header["If-Match"] = row.values
			version, err := api.IfMatch(r)
			switch row.want {
			case "rejected":
				require.ErrorIs(t, err, wire.PreconditionFailed)
			case "none":
				require.NoError(t, err)
				require.Nil(t, version)
			default:
				require.NoError(t, err)
				require.Equal(t, row.want, strconv.FormatInt(*version, 10))
			}
		})
	}
	w := httptest.NewRecorder()
	api.SetVersion(w, 7)
	require.Equal(t, `"7"`, w.Header().Get("ETag"))
}

func TestNotModified(t *testing.T) {
	for name, row := range map[string]struct {
		header string
		want   bool
	}{
		"no header": {"", false}, "the same": {`"a"`, true}, "weak": {`W/"a"`, true}, "one of several": {`"b", "a"`, true},
		"any": {"*", true}, "another": {`"b"`, false}, "without quotes": {"a", false},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			if row.header != "" {
				r.Header.Set("If-None-Match", row.header)
			}
			require.Equal(t, row.want, api.NotModified(w, r, "a"))
			require.Equal(t, row.want, w.Code == http.StatusNotModified)
			require.Equal(t, `"a"`, w.Header().Get("ETag"))
		})
	}
}
