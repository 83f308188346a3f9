package outbound_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/outbound"
)

// The error of a lookup names the host and the reason, not the resolver that was used.
func TestErrorsHideTheResolver(t *testing.T) {
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	former := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = former })
	for name, row := range map[string]struct {
		dial func(ctx context.Context, network string) (net.Conn, error)
		want string
	}{
		"a resolver that is not there": {func(ctx context.Context, network string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, gone.LocalAddr().String())
		}, "lookup a.example.com: the lookup failed"},
		"one that does not respond": {func(context.Context, string) (net.Conn, error) {
			return nil, os.ErrDeadlineExceeded
		}, "lookup a.example.com: the lookup timed out"},
	} {
		net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return row.dial(ctx, network)
		}}
		for kind, client := range map[string]*http.Client{
			"Transport": {Transport: outbound.Transport()},
			"Public":    outbound.Public(nil),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				_, err := get(t.Context(), client, "http://a.example.com/")
				require.ErrorContains(t, err, row.want)
				require.NotRegexp(t, `\d+\.\d+\.\d+\.\d+|:\d+|\[`, strings.ReplaceAll(err.Error(), "http://a.example.com/", ""))
			})
		}
	}
}
