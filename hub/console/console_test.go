package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/console"
)

// site is the state of a hub.
type site struct {
	err      error // of every part of the state
	setup    bool
	agents   int
	external bool
	now      time.Time
}

func (s *site) open(t *testing.T) http.Handler {
	t.Helper()
	service := console.New(console.Config{
		Version: "v1 <2>", External: s.external, Now: func() time.Time { return s.now },
		Ready:         func(context.Context) error { return s.err },
		SetupRequired: func(context.Context) (bool, error) { return s.setup, s.err },
		Agents:        func(context.Context) (int, error) { return s.agents, s.err },
	})
	handler, err := api.New(api.Config{}, service.Routes()...)
	require.NoError(t, err)
	return handler
}

func get(h http.Handler, method, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A page loads nothing: its style and its script are in it, its policy has their hashes, and
// nothing else runs or is sent elsewhere.
func TestPagesLoadNothing(t *testing.T) {
	h := (&site{}).open(t)
	for _, path := range []string{"/", "/console/login", "/console/register"} {
		w := get(h, http.MethodGet, path, "text/html")
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		policy := w.Header().Get("Content-Security-Policy")
		require.True(t, strings.HasPrefix(policy, "default-src 'none'; "), policy)
		require.Contains(t, policy, "frame-ancestors 'none'")
		require.NotContains(t, policy, "unsafe")
		require.NotContains(t, policy, "http")
		root, err := html.Parse(strings.NewReader(w.Body.String()))
		require.NoError(t, err)
		ids, inline := map[string]bool{}, 0
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && (n.Data == "style" || n.Data == "script") {
				sum := sha256.Sum256([]byte(n.FirstChild.Data))
				require.Contains(t, policy, n.Data+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", path)
				inline++
			}
			require.NotContains(t, []string{"iframe", "object", "base", "img"}, n.Data)
			for _, a := range n.Attr {
				require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src", "%s: %s", path, a.Key)
				if a.Key == "href" {
					require.Regexp(t, `^(data:,|/?[a-z/.]*)$`, a.Val, "%s: of this server", path)
				}
				if a.Key == "id" {
					require.False(t, ids[a.Val], "%s: two elements have the id %s", path, a.Val)
					ids[a.Val] = true
				}
			}
		}
		for _, name := range regexp.MustCompile(`(?:element|onSubmit|show)\("([a-z-]+)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			require.True(t, ids[name[1]], "%s: the script uses the element %s", path, name[1])
		}
		require.Equal(t, map[string]int{"/": 1}[path]+2*map[string]int{"/console/login": 1, "/console/register": 1}[path], inline)
		head := get(h, http.MethodHead, path, "text/html")
		require.Equal(t, http.StatusOK, head.Code)
		require.Empty(t, head.Body.String())
	}
}

func TestTheStartPageHasTheState(t *testing.T) {
	s := &site{setup: true, agents: 3, now: time.Now()}
	h := s.open(t)
	page := func(h http.Handler) string { return get(h, http.MethodGet, "/", "").Body.String() }
	for _, want := range []string{"v1 &lt;2&gt;", ">3<", ">ready<", "not set up", `href="console/login"`, `href="docs"`} {
		require.Contains(t, page(h), want)
	}
	s.setup, s.agents = false, 4
	require.Contains(t, page(h), ">3<", "it is read once a second")
	s.now = s.now.Add(time.Second)
	require.Contains(t, page(h), ">4<")
	require.Contains(t, page(h), "with a password")
	s.err = errors.New("the database cannot be reached")
	s.now = s.now.Add(time.Second)
	require.Contains(t, page(h), "not ready")
	require.NotContains(t, page(h), s.err.Error())
	s = &site{external: true, setup: true}
	require.Contains(t, page(s.open(t)), "with the identity provider")
}

func TestAClientOfTheAPIGetsNoPage(t *testing.T) {
	h := (&site{}).open(t)
	for accept, status := range map[string]int{
		"": 200, "*/*": 200, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": 200, "application/json, text/html": 200,
		"application/json": 404, "application/json, */*": 404, "application/problem+json": 404,
	} {
		w := get(h, http.MethodGet, "/", accept)
		require.Equal(t, status, w.Code, accept)
		if status == 404 {
			require.Contains(t, w.Body.String(), `"code":"not_found"`)
		}
	}
}
