package gatewaytest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Harness is the subject of the suite.
type Harness struct {
	Server *Server

	// Gateway returns a driver of Server with an admin key.
	Gateway func(t *testing.T, key string) deploy.Gateway

	// Edits are changes of an operator by what they do. Each gets the name of a deployment.
	Edits map[string]func(s *Server, name string)
}

// Suite tests the rules of deploy.Gateway. open starts a gateway without routes.
func Suite(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(*subject){
		"life":               (*subject).life,
		"paths":              (*subject).paths,
		"odd paths":          (*subject).oddPaths,
		"origins":            (*subject).origins,
		"streams":            (*subject).streams,
		"owners":             (*subject).owners,
		"edits":              (*subject).edits,
		"ends in the middle": (*subject).middle,
		"long names":         (*subject).long,
		"many":               (*subject).many,
		"invalid routes":     (*subject).invalid,
		"faults":             (*subject).faults,
		"concurrent calls":   (*subject).concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			s := &subject{t: t, Harness: h, gateway: h.Gateway(t, AdminKey)}
			s.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.URL.RequestURI()+" "+r.Host) // an error means that the client disconnected
			}))
			t.Cleanup(s.upstream.Close)
			test(s)
		})
	}
}

type subject struct {
	t *testing.T
	Harness
	gateway  deploy.Gateway
	upstream *httptest.Server
}

const owner = "first"

func (s *subject) route(key, path string) deploy.Route {
	return deploy.Route{Key: key, Host: "localhost", Path: path, Target: s.upstream.URL, Timeout: 31 * time.Minute}
}

func (s *subject) put(r deploy.Route) {
	s.t.Helper()
	require.NoError(s.t, s.gateway.Put(s.t.Context(), owner, r))
}

func (s *subject) remove(key string) {
	s.t.Helper()
	require.NoError(s.t, s.gateway.Remove(s.t.Context(), owner, key))
}

func (s *subject) routes(owner string) map[string]deploy.Route {
	s.t.Helper()
	all, err := s.gateway.Routes(s.t.Context(), owner)
	require.NoError(s.t, err)
	return all
}

// get requests a path of the gateway.
func (s *subject) get(path string) (status int, text string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.Server.Proxy+path, http.NoBody)
	require.NoError(s.t, err)
	res, err := s.upstream.Client().Do(req)
	require.NoError(s.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(s.t, errors.Join(err, res.Body.Close()))
	return res.StatusCode, string(body)
}

func (s *subject) reaches(path, want string) {
	s.t.Helper()
	status, text := s.get(path)
	require.Equal(s.t, http.StatusOK, status, path)
	require.Equal(s.t, want+" "+strings.TrimPrefix(s.Server.Proxy, "http://"), text, "with the host of the client")
}

func (s *subject) misses(path string) {
	s.t.Helper()
	status, text := s.get(path)
	require.Equal(s.t, http.StatusNotFound, status, "%s: %s", path, text)
}

func (s *subject) life() {
	require.Empty(s.t, s.routes(owner))
	s.remove("acme-bot")
	first := s.route("acme-bot", "/acme/bot")
	s.put(first)
	require.Equal(s.t, map[string]deploy.Route{"acme-bot": first}, s.routes(owner))
	require.NotEmpty(s.t, s.Server.Writes())
	s.put(first)
	require.Empty(s.t, s.Server.Writes(), "nothing has changed")
	s.reaches("/acme/bot/v1/agents?x=1&y=a%2Fb", "/v1/agents?x=1&y=a%2Fb")

	next := httptest.NewServer(http.NotFoundHandler())
	s.t.Cleanup(next.Close)
	moved := first
	moved.Target, moved.Timeout = next.URL, time.Hour
	s.put(moved)
	require.Len(s.t, s.Server.Writes(), 1, "the route moves with one write")
	require.Equal(s.t, moved, s.routes(owner)["acme-bot"])
	s.misses("/acme/bot/v1/agents")
	s.remove("acme-bot")
	s.remove("acme-bot")
	require.Empty(s.t, s.routes(owner))
	require.Empty(s.t, s.Server.Names(routes))
	require.Empty(s.t, s.Server.Names(services))
}

// A part of a stream arrives while the runtime waits.
func (s *subject) streams() {
	wait := make(chan struct{})
	stream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		_, _ = io.WriteString(w, "first\n") // the test reads it
		_ = http.NewResponseController(w).Flush()
		<-wait
		_, _ = io.WriteString(w, "last\n")
	}))
	s.t.Cleanup(stream.Close)
	r := s.route("acme-bot", "/acme/bot")
	r.Target = stream.URL
	s.put(r)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.Server.Proxy+"/acme/bot/v1/x", http.NoBody)
	require.NoError(s.t, err)
	res, err := s.upstream.Client().Do(req)
	require.NoError(s.t, err)
	part := make([]byte, 6)
	_, err = io.ReadFull(res.Body, part)
	require.NoError(s.t, err)
	require.Equal(s.t, "first\n", string(part))
	close(wait)
	rest, err := io.ReadAll(res.Body)
	require.NoError(s.t, errors.Join(err, res.Body.Close()))
	require.Equal(s.t, "last\n", string(rest))
}

// Entities of other hubs and of operators are neither changed, nor listed, nor deleted.
func (s *subject) owners() {
	s.put(s.route("acme-bot", "/acme/bot"))
	s.Server.Writes()
	taken := s.route("acme-bot", "/other/bot")
	require.ErrorIs(s.t, s.gateway.Put(s.t.Context(), "second", taken), deploy.ErrForeignRoute)
	require.NoError(s.t, s.gateway.Remove(s.t.Context(), "second", "acme-bot"))
	require.Empty(s.t, s.routes("second"))
	require.Empty(s.t, s.Server.Writes())
	s.reaches("/acme/bot/x", "/x")
	s.remove("acme-bot")
	require.NoError(s.t, s.gateway.Put(s.t.Context(), "second", taken))
	require.ErrorIs(s.t, s.gateway.Put(s.t.Context(), owner, s.route("acme-bot", "/acme/bot")), deploy.ErrForeignRoute)
	require.Empty(s.t, s.routes(owner))
	require.Equal(s.t, map[string]deploy.Route{"acme-bot": taken}, s.routes("second"))
}

// A change by hand is visible in the list, and repaired.
func (s *subject) edits() {
	require.NotEmpty(s.t, s.Edits)
	for name, edit := range s.Edits {
		r := s.route("acme-bot", "/acme/bot")
		s.put(r)
		edit(s.Server, "acme-bot")
		require.NotEqual(s.t, r, s.routes(owner)["acme-bot"], name)
		s.put(r)
		require.Equal(s.t, r, s.routes(owner)["acme-bot"], name)
		s.reaches("/acme/bot/x", "/x")
	}
}

// A call that ends after any of its requests is completed by the next one.
func (s *subject) middle() {
	s.put(s.route("acme-other", "/acme/other"))
	target := httptest.NewServer(http.NotFoundHandler())
	s.t.Cleanup(target.Close)
	r := s.route("acme-bot", "/acme/bot")
	moved := r
	moved.Target = target.URL
	for name, call := range map[string]func() error{
		"create": func() error { return s.gateway.Put(s.t.Context(), owner, r) },
		"remove": func() error {
			return errors.Join(s.gateway.Put(s.t.Context(), owner, r), s.gateway.Remove(s.t.Context(), owner, r.Key))
		},
		"move": func() error {
			return errors.Join(s.gateway.Put(s.t.Context(), owner, r), s.gateway.Put(s.t.Context(), owner, moved))
		},
	} {
		for after := range 12 {
			n := 0
			s.Server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				if n++; n > after {
					return Status(http.StatusInternalServerError)(w, r)
				}

				return false
			})
			_ = call() // it may be complete
			s.Server.Fail(nil)
			for key := range s.routes(owner) { // all that is left is listed
				if key == r.Key {
					s.put(r)
					require.Equal(s.t, r, s.routes(owner)[r.Key], "%s after %d", name, after)
				}
			}

			s.remove(r.Key)
			require.Len(s.t, s.Server.Names(routes), 1, "%s after %d", name, after)
			require.LessOrEqual(s.t, len(s.Server.Names(services)), 1, "%s after %d", name, after)
		}
	}
}

// The keys of two deployments with long names do not become one name.
func (s *subject) long() {
	org, agent := strings.Repeat("o", 63), strings.Repeat("a", 62)
	first, second := s.route(org+"-"+agent+"1", "/"+org+"/"+agent+"1"), s.route(org+"-"+agent+"2", "/"+org+"/"+agent+"2")
	s.put(first)
	s.put(second)
	require.Equal(s.t, map[string]deploy.Route{first.Key: first, second.Key: second}, s.routes(owner))
	s.reaches(second.Path+"/x", "/x")
	s.remove(first.Key)
	s.misses(first.Path + "/x")
	s.reaches(second.Path+"/x", "/x")
}

// A list has several pages.
func (s *subject) many() {
	want := map[string]deploy.Route{}
	for i := range 510 {
		name := "a" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		if i >= 500 {
			name = "z" + name[2:]
		}

		want["acme-"+name] = s.route("acme-"+name, "/acme/"+name)
	}

	for _, r := range want {
		s.put(r)
	}

	require.Equal(s.t, want, s.routes(owner))
}

// No text that a gateway could read as another path, host or pattern is sent.
func (s *subject) invalid() {
	for _, change := range []func(*deploy.Route){
		func(r *deploy.Route) { r.Path = "" }, func(r *deploy.Route) { r.Path = "/" }, func(r *deploy.Route) { r.Path = "/a/b/c" },
		func(r *deploy.Route) { r.Path = "/acme/.*" }, func(r *deploy.Route) { r.Path = "/acme/bot*" }, func(r *deploy.Route) { r.Path = "/a//b" },
		func(r *deploy.Route) { r.Path = "/acme/bot$" }, func(r *deploy.Route) { r.Path = "/acme/b|t" }, func(r *deploy.Route) { r.Path = "/acme/bot\n" },
		func(r *deploy.Route) { r.Path = "/../x" }, func(r *deploy.Route) { r.Path = "~/acme" }, func(r *deploy.Route) { r.Path = "/:name" },
		func(r *deploy.Route) { r.Key = "" }, func(r *deploy.Route) { r.Key = "a/b" }, func(r *deploy.Route) { r.Key = "a.b" }, func(r *deploy.Route) { r.Key = ".." },
		func(r *deploy.Route) { r.Host = "*.example.com" }, func(r *deploy.Route) { r.Host = "a b" }, func(r *deploy.Route) { r.Host = "example.com:80" },
		func(r *deploy.Route) { r.Target = "" }, func(r *deploy.Route) { r.Target = "ftp://x:1" }, func(r *deploy.Route) { r.Target = "http://x:0" },
		func(r *deploy.Route) { r.Target = "http://x:1/path" }, func(r *deploy.Route) { r.Target = "http://u:p@x:1" }, func(r *deploy.Route) { r.Target = "http://x_y:1" },
		func(r *deploy.Route) { r.Target = "http://x" }, func(r *deploy.Route) { r.Timeout = 90500 * time.Millisecond },
		func(r *deploy.Route) { r.Timeout = 0 }, func(r *deploy.Route) { r.Timeout = 1 << 62 },
	} {
		r := s.route("acme-bot", "/acme/bot")
		change(&r)
		require.Error(s.t, s.gateway.Put(s.t.Context(), owner, r), "%+v", r)
	}

	require.Empty(s.t, s.Server.Writes())
	six := s.route("acme-six", "/acme/six")
	six.Target = "http://[::1]:8080"
	s.put(six)
	require.Equal(s.t, six, s.routes(owner)["acme-six"])
}

// Each fault is an error within its time, without the admin key and without the text of the
// response.
func (s *subject) faults() {
	redirected := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected = true }))
	s.t.Cleanup(elsewhere.Close)
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"away": Away,
		"500":  Status(http.StatusInternalServerError),
		"401":  Status(http.StatusUnauthorized),
		"no JSON": func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = io.WriteString(w, "<html>"+r.Header.Get("X-Api-Key")+r.Header.Get("Kong-Admin-Token"))
			return true
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return true
		},
		"no end": func(w http.ResponseWriter, r *http.Request) bool {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return true
				}
			}

			return true
		},
		"slow": func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		},
	} {
		s.Server.Fail(fault)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return s.gateway.Put(ctx, owner, s.route("acme-bot", "/acme/bot")) },
			func(ctx context.Context) error { return s.gateway.Remove(ctx, owner, "acme-bot") },
			func(ctx context.Context) error {
				_, err := s.gateway.Routes(ctx, owner)
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
			if name == "slow" {
				ctx, cancel = context.WithTimeout(s.t.Context(), 20*time.Millisecond)
			}

			err := call(ctx)
			cancel()
			require.Error(s.t, err, name)
			require.NotContains(s.t, err.Error(), AdminKey, name)
			require.NotRegexp(s.t, `127\.0\.0\.1|:\d+`, err.Error(), "%s: users read it", name)
			require.Less(s.t, len(err.Error()), 300, name)
		}
	}

	s.Server.Fail(nil)
	require.False(s.t, redirected, "the key does not follow a redirect")
	require.ErrorContains(s.t, s.Gateway(s.t, "another").Put(s.t.Context(), owner, s.route("acme-bot", "/acme/bot")), "rejected the admin key")
	require.Empty(s.t, s.Server.Names(routes))
	s.Server.Fail(func(w http.ResponseWriter, r *http.Request) bool { // a list that does not end
		item := Object{"name": "x", "value": Object{"id": "x"}}
		list := make([]Object, 500)
		for i := range list {
			list[i] = item
		}

		respond(w, http.StatusOK, Object{"data": list[:1], "offset": "again", "list": list, "total": 1 << 30})
		return true
	})
	_, err := s.gateway.Routes(s.t.Context(), owner)
	require.ErrorContains(s.t, err, "pages")
	s.Server.stop()
	err = s.gateway.Put(s.t.Context(), owner, s.route("acme-bot", "/acme/bot"))
	require.EqualError(s.t, err, "the admin interface of the gateway cannot be reached")
	require.ErrorContains(s.t, errors.Unwrap(err), "refused", "for the log")
}

func (s *subject) concurrent() {
	r := s.route("acme-bot", "/acme/bot")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if err := s.gateway.Put(s.t.Context(), owner, r); err != nil {
					s.t.Error(err)
				}
			}
		})
	}

	all.Wait()
	require.Equal(s.t, map[string]deploy.Route{"acme-bot": r}, s.routes(owner))
	s.reaches("/acme/bot/x", "/x")
}
