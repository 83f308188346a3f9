package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
)

var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("::ffff:192.168.0.0/112"),
	netip.MustParsePrefix("fd00::/8"),
	netip.MustParsePrefix("fe80::/10"),
}

// remoteIP returns the address of a request. Nil proxies means that no peer is trusted.
func remoteIP(t testing.TB, trusted []netip.Prefix, peer string, forwarded ...string) (ip string) {
	h := handler(t, func(c *api.Config) { c.TrustedProxies = trusted }, routeWith("GET", "/", func(w http.ResponseWriter, r *http.Request) error {
		ip = api.RemoteIP(r)
		require.Equal(t, ip, api.CallerOf(r).RemoteIP)
		return api.NoContent(w)
	}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	r.Header["X-Forwarded-For"] = forwarded
	h.ServeHTTP(httptest.NewRecorder(), r)
	return ip
}

func TestRemoteIP(t *testing.T) {
	for name, row := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"a peer":                          {"203.0.113.9:4711", nil, "203.0.113.9"},
		"IPv6":                            {"[2001:db8::9]:4711", nil, "2001:db8::9"},
		"with a zone":                     {"[fe80::9%eth0]:4711", nil, "fe80::9"},
		"IPv4 in IPv6":                    {"[::ffff:203.0.113.9]:4711", nil, "203.0.113.9"},
		"a Unix socket":                   {"@", []string{"203.0.113.9"}, ""},
		"a stranger who forwards":         {"203.0.113.9:4711", []string{"198.51.100.1"}, "203.0.113.9"},
		"a proxy that forwards nothing":   {"10.0.0.1:4711", nil, "10.0.0.1"},
		"a proxy":                         {"10.0.0.1:4711", []string{"198.51.100.1"}, "198.51.100.1"},
		"a proxy in the other form":       {"[::ffff:10.0.0.1]:4711", []string{"198.51.100.1"}, "198.51.100.1"},
		"a range in the other form":       {"192.168.0.1:4711", []string{"198.51.100.1"}, "198.51.100.1"},
		"a proxy with a zone":             {"[fe80::1%eth0]:4711", []string{"198.51.100.1"}, "198.51.100.1"},
		"two proxies":                     {"10.0.0.1:4711", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"what the client made up":         {"10.0.0.1:4711", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		"a proxy that the client made up": {"10.0.0.1:4711", []string{"10.9.9.9, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"in several lines":                {"10.0.0.1:4711", []string{"1.1.1.1", "198.51.100.1", "10.0.0.3,10.0.0.2"}, "198.51.100.1"},
		"proxies alone":                   {"10.0.0.1:4711", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"a port":                          {"10.0.0.1:4711", []string{"198.51.100.1:99"}, "198.51.100.1"},
		"IPv6 in brackets":                {"10.0.0.1:4711", []string{"[2001:db8::9]"}, "2001:db8::9"},
		"with a port":                     {"10.0.0.1:4711", []string{"[2001:db8::9]:99"}, "2001:db8::9"},
		"with a zone, forwarded":          {"10.0.0.1:4711", []string{"[fe80::9%eth0]:99"}, "fe80::9"},
		"IPv4 in IPv6, forwarded":         {"10.0.0.1:4711", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"tabs":                            {"10.0.0.1:4711", []string{"198.51.100.1\t,\t10.0.0.2"}, "198.51.100.1"},
		"garbage":                         {"10.0.0.1:4711", []string{"198.51.100.1, unknown"}, "10.0.0.1"},
		"garbage behind a proxy":          {"10.0.0.1:4711", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		"garbage that nobody comes to":    {"10.0.0.1:4711", []string{"<script>, 198.51.100.1"}, "198.51.100.1"},
		"an empty part":                   {"10.0.0.1:4711", []string{"198.51.100.1,,10.0.0.2"}, "10.0.0.2"},
		"an empty part at the end":        {"10.0.0.1:4711", []string{"198.51.100.1,"}, "10.0.0.1"},
		"an empty line":                   {"10.0.0.1:4711", []string{"198.51.100.1", ""}, "198.51.100.1"},
		"a name":                          {"10.0.0.1:4711", []string{"example.com"}, "10.0.0.1"},
		"half a bracket":                  {"10.0.0.1:4711", []string{"[2001:db8::9"}, "10.0.0.1"},
		"brackets around IPv4":            {"10.0.0.1:4711", []string{"[198.51.100.1]"}, "10.0.0.1"},
		"leading zeros, read as octal":    {"10.0.0.1:4711", []string{"0198.051.100.001"}, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, remoteIP(t, proxies, row.peer, row.forwarded...))
		})
	}
	require.Equal(t, "10.0.0.1", remoteIP(t, nil, "10.0.0.1:4711", "198.51.100.1"), "nobody is trusted unless it is said")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	require.Equal(t, "10.0.0.1", api.RemoteIP(r), "no request of New")
}

func FuzzRemoteIP(f *testing.F) {
	f.Add("198.51.100.1, 10.0.0.2", "[::1]:80")
	f.Add(",,,", "10.0.0.1")
	f.Add("[fe80::1%25eth0]:443,[", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		ip := remoteIP(t, proxies, "10.0.0.1:1", a, b)
		addr, err := netip.ParseAddr(ip)
		require.NoError(t, err)
		require.Equal(t, addr.String(), ip)
		require.False(t, addr.Is4In6())
		require.Empty(t, addr.Zone())
		require.LessOrEqual(t, len(ip), 39)
		require.NotContains(t, ip, strings.Repeat(":", 3))
	})
}

func TestForwardingHeadersOfAnUntrustedPeer(t *testing.T) {
	for name, row := range map[string]struct {
		peer, header string
		warnings     int
	}{
		"X-Forwarded-For":      {"203.0.113.9:4711", "X-Forwarded-For", 1},
		"Forwarded":            {"203.0.113.9:4711", "Forwarded", 1},
		"X-Real-IP":            {"203.0.113.9:4711", "X-Real-IP", 1},
		"loopback":             {"127.0.0.1:4711", "X-Forwarded-For", 1},
		"a Unix socket":        {"@", "X-Forwarded-For", 1},
		"a trusted proxy":      {"10.0.0.1:4711", "X-Forwarded-For", 0},
		"no forwarding header": {"203.0.113.9:4711", "X-Other", 0},
	} {
		t.Run(name, func(t *testing.T) {
			logger, log := logged()
			h := handler(t, func(c *api.Config) { c.Logger, c.TrustedProxies = logger, proxies }, route("GET", "/"))
			for range 3 {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.RemoteAddr = row.peer
				r.Header.Set(row.header, "198.51.100.1")
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			require.Equal(t, row.warnings, strings.Count(log.String(), "level=WARN"), log)
		})
	}
}
