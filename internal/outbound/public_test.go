package outbound_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback allows only 127.0.0.1, the address of the test servers.
func loopback(addr netip.Addr) bool { return addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

func newClient(t *testing.T, allow func(netip.Addr) bool) *http.Client {
	t.Helper()
	client := outbound.Public(allow)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

func TestIsPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"1.1.1.1": true, "9.255.255.255": true, "11.0.0.0": true, "100.63.255.255": true, "100.128.0.0": true,
		"126.255.255.255": true, "128.0.0.0": true, "169.253.255.255": true, "172.15.255.255": true, "172.32.0.0": true,
		"192.0.1.0": true, "192.167.0.1": true, "198.17.255.255": true, "198.20.0.0": true, "223.255.255.255": true,
		"2606:4700::1111": true, "2001:200::1": true, "2a00::1": true, "::ffff:1.1.1.1": true, "64:ff9b::1.1.1.1": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.100.100.200": false,
		"127.0.0.1": false, "127.255.255.254": false, "168.63.129.16": false, "169.254.169.254": false, "172.16.0.1": false,
		"172.31.255.255": false, "192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.1.1": false,
		"198.18.0.1": false, "198.19.255.255": false, "198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false,
		"239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false,

		"::": false, "::1": false, "::127.0.0.1": false, "::1.1.1.1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false,
		"::ffff:169.254.169.254": false, "::ffff:0:127.0.0.1": false, "64:ff9b::10.0.0.1": false,
		"64:ff9b::169.254.169.254": false, "64:ff9b:1::1.1.1.1": false, "100::1": false, "2001::1": false,
		"2001:0:4136:e378:8000:63bf:3fff:fdd2": false, "2001:2::1": false, "2001:db8::1": false, "2002:7f00:1::": false,
		"2002:101:101::1": false, "3fff::1": false, "5f00::1": false, "fc00::1": false, "fd00:ec2::254": false, "fe80::1": false,
		"fe80::1%eth0": false, "fec0::1": false, "ff02::1": false, "2606:4700::1111%1": true, "::ffff:10.0.0.1%1": false,
	} {
		t.Run(addr, func(t *testing.T) {
			require.Equal(t, want, outbound.IsPublic(netip.MustParseAddr(addr)))
		})
	}
	require.False(t, outbound.IsPublic(netip.Addr{}))
}

// A host is rejected before a byte is sent, regardless of how it is written.
func TestPublicRejectsHosts(t *testing.T) {
	hit := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	client := newClient(t, nil)
	for _, row := range []struct {
		name, host string
		looked     bool // up by name: whether such is an address is for the system's resolver to say
	}{
		{"loopback", "127.0.0.1", false},
		{"another of them", "127.1.2.3", false},
		{"unspecified", "0.0.0.0", false},
		{"IPv6 loopback", "[::1]", false},
		{"IPv6 unspecified", "[::]", false},
		{"mapped", "[::ffff:127.0.0.1]", false},
		{"mapped in hex", "[::ffff:7f00:1]", false},
		{"zone", "[fe80::1%25lo]", false},
		{"metadata", "169.254.169.254", false},
		{"a name", "localhost", false},
		{"decimal", "2130706433", true},
		{"octal", "0177.0.0.1", true},
		{"hexadecimal", "0x7f.0.0.1", true},
		{"short", "127.1", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := get(t.Context(), client, "http://"+row.host+":"+port+"/")
			if row.looked {
				require.Error(t, err)
				return
			}
			require.ErrorIs(t, err, outbound.ErrAddress)
			require.ErrorContains(t, err, "the address is private")
		})
	}
	require.False(t, hit)
}

func TestPublicRedirects(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	secure := httptest.NewTLSServer(http.RedirectHandler(server.URL+"/end", http.StatusFound))
	t.Cleanup(secure.Close)
	mux.HandleFunc("GET /end", func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, "end"+r.Header.Get("Cookie"))
	})
	mux.HandleFunc("GET /to", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.Header().Set("Location", r.URL.Query().Get("url"))
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("GET /count/{n}", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscan(r.PathValue("n"), &n)
		if n == 0 {
			http.Redirect(w, r, "/end", http.StatusFound)
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/count/%d", n-1), http.StatusFound)
	})
	client := newClient(t, loopback)
	client.Transport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	for _, row := range []struct {
		name, url, want string // want: the body, or what the error says
		refused         bool
	}{
		{"followed, without the cookie", server.URL + "/to?url=/end", "end", false},
		{"five", server.URL + "/count/4", "end", false},
		{"six", server.URL + "/count/5", "more than 5 redirects", true},
		{"to a private address", server.URL + "/to?url=http://10.0.0.1/", "the address is private", true},
		{"to a neighbour", server.URL + "/to?url=http://127.0.0.2" + port, "the address is private", true},
		{"to IPv6", server.URL + "/to?url=http://[::1]" + port, "the address is private", true},
		{"to a file", server.URL + "/to?url=file:///etc/passwd", `redirect to a "file" URL`, true},
		{"from https to http", secure.URL, "redirect from https to " + server.URL + "/end", true},
		{"to https", server.URL + "/to?url=" + secure.URL, "redirect from https to http", true},
		{"no URL of the web", "ftp://127.0.0.1/", "unsupported protocol scheme", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			body, err := get(t.Context(), client, row.url)
			if row.refused {
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, body)
		})
	}
}

func TestPublicBoundsHeaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
		}
	}))
	t.Cleanup(server.Close)
	_, err := get(t.Context(), newClient(t, loopback), server.URL)
	require.ErrorContains(t, err, "exceeded")
}

func TestPublicUsesNoProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTP_PROXY", proxy.URL)
	_, err := get(t.Context(), newClient(t, loopback), "http://10.0.0.1/")
	require.ErrorIs(t, err, outbound.ErrAddress)
}
