package outbound_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/outbound"
)

// A server cannot send headers of any length, which are in memory before a caller gets a response.
func TestHeadersAreBounded(t *testing.T) {
	for name, row := range map[string]struct {
		count, size, early int
		fails              bool
	}{
		"some":                {10, 1 << 10, 0, false},
		"one long":            {1, 1 << 20, 0, true},
		"many":                {200, 1 << 10, 0, true},
		"many that are small": {20_000, 1, 0, true},
		"before the response": {20, 1 << 10, 20, true},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", name, http2), func(t *testing.T) {
				set := func(w http.ResponseWriter) {
					for i := range row.count {
						w.Header().Set(fmt.Sprint("X-Filler-", i), strings.Repeat("x", row.size))
					}
				}
				srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					set(w)
					for range row.early {
						w.WriteHeader(http.StatusEarlyHints)
						set(w)
					}
					_, _ = io.WriteString(w, "text")
				}))
				srv.EnableHTTP2 = http2
				srv.StartTLS()
				defer srv.Close()
				transport := outbound.Transport()
				defer transport.CloseIdleConnections()
				transport.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig
				res, err := (&http.Client{Transport: transport}).Get(srv.URL)
				if row.fails {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, "text", string(text))
			})
		}
	}
}
