package gateway_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

func TestProxyForwardsRunsWithTheKeyOfTheDeployment(t *testing.T) {
	s, _ := serve(t, host(t))
	anyone := s.As("", "", "")
	anyone.Get("/runtime/a/v1/agents").Want(http.StatusUnauthorized)
	list := anyone.Do(http.MethodGet, "/runtime/a/v1/agents", nil, "X-Api-Key", apiKey)
	require.Equal(t, http.StatusOK, list.Status)
	require.Contains(t, list.Text, `"id":"a"`)
	run := anyone.Do(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello"}, "X-Api-Key", apiKey)
	require.Equal(t, http.StatusOK, run.Status)
	require.Equal(t, "text/event-stream; charset=utf-8", run.Header.Get("Content-Type"))
	require.Contains(t, run.Text, "event: done")
	require.Equal(t, []string{"no-cache, no-transform, no-store"}, run.Header.Values("Cache-Control"))
	require.Equal(t, []string{"default-src 'none'; frame-ancestors 'none'; sandbox"}, run.Header.Values("Content-Security-Policy"))
	require.Equal(t, http.StatusBadRequest, anyone.Do(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey).Status)
}

// A run of a former revision is cancelled where it is, although another runtime serves.
func TestCancelReachesTheRuntimeOfTheRun(t *testing.T) {
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half"), modeltest.Hang())))
	held := agent.Agent{ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(up.URL), APIKey: "key"}}
	var former, broken []string
	for range 2 {
		server := httptest.NewServer(host(t, held))
		t.Cleanup(server.Close)
		former = append(former, server.URL)
	}
	for _, status := range []int{http.StatusUnauthorized, http.StatusInternalServerError, http.StatusFound} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		broken = append(broken, server.URL)
	}
	s, _ := serve(t, host(t), func(c *gateway.Config) {
		c.Draining = func(_ context.Context, target gateway.Target) ([]string, error) {
			require.Equal(t, "a", target.AgentID)
			return append(append([]string{"http://127.0.0.1:1"}, broken...), former...), nil
		}
	})
	anyone := s.As("", "", "")
	cancel := func(id string) apitest.Response {
		t.Helper()
		return anyone.Do(http.MethodPost, "/runtime/a/v1/runs/"+id+"/cancel", map[string]any{}, "X-Api-Key", apiKey)
	}
	for i, url := range former {
		c, err := client.New(client.Config{BaseURL: url, APIKey: apiKey})
		require.NoError(t, err)
		id := "22222222-2222-4222-8222-22222222222" + strconv.Itoa(i)
		result := make(chan runtimewire.RunResponse, 1)
		go func() {
			answer, err := c.Complete(context.WithoutCancel(t.Context()), "a", runtimewire.RunRequest{Message: "hello", RunID: &id})
			if err != nil {
				answer.Error = err.Error()
			}
			result <- answer
		}()
		up.Await(t, i+1)
		r := cancel(id)
		require.Equal(t, http.StatusAccepted, r.Status, r.Text)
		answer := <-result
		require.Equal(t, runtimewire.StateCancelled, answer.State, answer.Error)
		require.Equal(t, runtimewire.ReasonClientRequest, answer.Reason)
		require.Equal(t, http.StatusAccepted, cancel(id).Status, "again")
	}
	for _, id := range []string{"22222222-2222-4222-8222-222222222229", "x", "%20"} {
		r := cancel(id)
		require.Equal(t, http.StatusNotFound, r.Status)
		require.Contains(t, r.Text, "Run not found", "the response of the runtime that serves")
	}
}

// A runtime that serves and does not respond does not hide those of former revisions.
func TestCancelWithoutTheRuntimeThatServes(t *testing.T) {
	former := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/runs/known/cancel" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(former.Close)
	s, _ := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), func(c *gateway.Config) {
		c.Draining = func(context.Context, gateway.Target) ([]string, error) {
			return []string{"http://127.0.0.1:1", former.URL}, nil
		}
	})
	anyone := s.As("", "", "")
	anyone.Do(http.MethodPost, "/runtime/a/v1/runs/known/cancel", nil, "X-Api-Key", apiKey).Want(http.StatusAccepted)
	anyone.Do(http.MethodPost, "/runtime/a/v1/runs/other/cancel", nil, "X-Api-Key", apiKey).Error(http.StatusBadGateway, code.UpstreamFailed)
}

func TestProxyPaths(t *testing.T) {
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.URL.RequestURI()))
	}))
	anyone := s.As("", "", "")
	for path, want := range map[string]string{
		"/runtime/a/": "/", "/runtime/a/health": "/health", "/runtime/a/v1/files?path=a%20b&x=%2e%2e": "/v1/files?path=a%20b&x=%2e%2e",
		"/runtime/a/x%20y": "/x%20y", "/runtime/a//v1": "//v1",
	} {
		r := anyone.Do(http.MethodGet, path, nil, "X-Api-Key", apiKey)
		require.Equal(t, http.StatusOK, r.Status, path)
		require.Equal(t, want, r.Text, path)
	}
	for _, path := range []string{"/runtime/a", "/runtime/a/%2e%2e/b", "/runtime/a/../b/x", "/runtime/a/v1%2fagents"} {
		anyone.Do(http.MethodGet, path, nil, "X-Api-Key", apiKey).Error(http.StatusNotFound, wire.NotFound)
	}
	anyone.Do(http.MethodGet, "/runtime/lost/health", nil, "X-Api-Key", apiKey).Error(http.StatusBadGateway, code.UpstreamFailed)
}

// Without the key of the agent's deployment, no response depends on the path.
func TestNamesUnderRuntimeHaveOneResponse(t *testing.T) {
	s, _ := serve(t, host(t))
	anyone := s.As("", "", "")
	long := strings.Repeat("x", 60<<10)
	for _, key := range [][]string{nil, {"X-Api-Key", ""}, {"X-Api-Key", "rt_" + strings.Repeat("0", 48)}, {"X-Api-Key", long[:1<<10]}, {"Authorization", "Bearer " + apiKey}} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions, http.MethodPut, "BREW"} {
			var first *apitest.Response
			for _, path := range []string{
				"/runtime/a/health", "/runtime/a/v1/agents", "/runtime/b/health", "/runtime/stopped/health", "/runtime/lost/health", "/runtime//health",
				"/runtime/a", "/runtime/a/", "/runtime/a/../b/x", "/runtime/%61/health", "/runtime/a%2e/x", "/runtime/%F0%9F%98%80/x", "/runtime/%ff/x",
				"/runtime/A/health", "/runtime/" + long + "/health", "/runtime/" + long,
			} {
				r := anyone.Do(method, path, nil, key...)
				require.Equal(t, http.StatusUnauthorized, r.Status, "%s %.40s", method, path)
				require.NotEmpty(t, r.Header.Get("X-Request-Id"))
				for _, name := range []string{"X-Request-Id", "Date"} {
					r.Header.Del(name)
				}
				r.Text = regexp.MustCompile(`"request_?[iI]d":"[^"]*"`).ReplaceAllString(r.Text, "")
				if first == nil {
					first = &r
				}
				require.Equal(t, first.Text, r.Text, "%s %.40s", method, path)
				require.Equal(t, first.Header, r.Header, "%s %.40s", method, path)
			}
		}
	}
}

func TestOrganizationsHaveTheirOwnPaths(t *testing.T) {
	s, _ := serve(t, host(t), func(cfg *gateway.Config) { cfg.Tenant = "" })
	anyone := s.As("", "", "")
	require.Equal(t, "ok", anyone.Do(http.MethodGet, "/runtime/acme/a/health", nil, "X-Api-Key", apiKey).Want(http.StatusOK)["status"])
	for _, path := range []string{"/runtime/other/a/health", "/runtime/a/health"} {
		anyone.Do(http.MethodGet, path, nil, "X-Api-Key", apiKey).Error(http.StatusUnauthorized, wire.Unauthenticated)
	}
}

func TestRuntimeReceivesNoCredentialOfTheHub(t *testing.T) {
	got := make(chan http.Header, 1)
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r.Header }))
	ada := s.As("acme", "ada", rbac.Admin)
	headers := []string{"Cookie", "s=1", "X-Ops-Key", "ops", "X-Chat-Push-Key", "push", "X-Forwarded-For", "1.2.3.4"}
	ada.Do(http.MethodGet, "/runtime/a/x", nil, append(headers, "X-Api-Key", apiKey, "Upgrade", "websocket", "Connection", "Upgrade")...)
	h := <-got
	require.Equal(t, apiKey, h.Get("X-Api-Key"))
	ada.Do(http.MethodGet, "/api/v1/admin/agents/a/files/content?path=x", nil, append(headers, "X-Api-Key", "client", "Range", "bytes=0-1")...)
	read := <-got
	require.Equal(t, apiKey, read.Get("X-Api-Key"))
	require.Equal(t, "bytes=0-1", read.Get("Range"))
	for _, name := range []string{"Authorization", "Cookie", "X-Ops-Key", "X-Chat-Push-Key", "X-Forwarded-For", "Upgrade", "Connection"} {
		require.Empty(t, h.Values(name), name)
		require.Empty(t, read.Values(name), name)
	}
}

func TestDetailAndFilesOfAnAgent(t *testing.T) {
	s, _ := serve(t, host(t))
	ada, bob, eve := s.As("acme", "ada", rbac.Maintainer), s.As("acme", "bob", rbac.Member), s.As("other", "eve", rbac.Admin)
	const files, content = "/api/v1/admin/agents/a/files", "/api/v1/admin/agents/a/files/content?path=notes.txt"

	require.Equal(t, "a", bob.Get("/api/v1/agents/a/detail").Want(http.StatusOK)["id"])
	ada.Get("/api/v1/agents/disabled/detail").Error(http.StatusNotFound, wire.NotFound)
	require.Equal(t, http.StatusOK, ada.Get("/api/v1/admin/agents/disabled/files").Status)
	require.Contains(t, bob.Get(files).Text, "notes.txt")
	bob.Get(content).Error(http.StatusForbidden, wire.Forbidden)
	require.Empty(t, s.Audit("acme"))

	whole := ada.Get(content)
	require.Equal(t, "0123456789", whole.Text)
	require.Equal(t, []string{"private, no-cache"}, whole.Header.Values("Cache-Control"))
	part := ada.Do(http.MethodGet, content, nil, "Range", "bytes=2-4")
	require.Equal(t, http.StatusPartialContent, part.Status)
	require.Equal(t, "234", part.Text)
	require.Equal(t, "bytes 2-4/10", part.Header.Get("Content-Range"))
	same := ada.Do(http.MethodGet, content, nil, "If-None-Match", whole.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, same.Status)
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, ada.Do(http.MethodGet, content, nil, "Range", "bytes=20-").Status)
	head := ada.Do(http.MethodHead, content, nil)
	require.Equal(t, "10", head.Header.Get("Content-Length"))
	require.Equal(t, http.StatusBadRequest, ada.Get("/api/v1/admin/agents/a/files/content?path=../x").Status)
	require.Equal(t, "agent.read_file a {\"path\":\"notes.txt\"}", s.Audit("acme")[0])
	require.Len(t, s.Audit("acme"), 6)

	for _, path := range []string{"/api/v1/agents/a/detail", files, content} {
		eve.Get(path).Error(http.StatusNotFound, wire.NotFound)
		s.As("", "", "").Get(path).Error(http.StatusUnauthorized, wire.Unauthenticated)
		ada.Get(strings.Replace(path, "/a/", "/stopped/", 1)).Error(http.StatusConflict, code.AgentNotDeployed)
		ada.Get(strings.Replace(path, "/a/", "/lost/", 1)).Error(http.StatusBadGateway, code.UpstreamFailed)
	}
	require.Empty(t, s.Audit("other"))
}

func TestFileIsNotReadWithoutItsAuditEntry(t *testing.T) {
	lost, err := db.Open(t.Context(), db.Config{URL: dbtest.SQLite(t)})
	require.NoError(t, err)
	log := apitest.NewAudit(t, lost)
	require.NoError(t, lost.Close())
	s, _ := serve(t, host(t), func(c *gateway.Config) { c.Store = apitest.NewStore(t, lost, store.Config{Audit: log}) })
	require.NotContains(t, s.As("acme", "ada", rbac.Admin).Get("/api/v1/admin/agents/a/files/content?path=notes.txt").Text, "0123456789")
}

func TestClientThatDisconnectsEndsTheRequestToTheRuntime(t *testing.T) {
	ended := make(chan struct{})
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("data: 1\n\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	res, err := http.DefaultClient.Do(s.As("", "", "").Request(http.MethodGet, "/runtime/a/stream", nil, "X-Api-Key", apiKey).WithContext(ctx))
	require.NoError(t, err)
	line, err := bufio.NewReader(res.Body).ReadString('\n') // it arrives before the response ends
	require.NoError(t, err)
	require.Equal(t, "data: 1\n", line)
	cancel()
	<-ended
	require.NoError(t, res.Body.Close())
}

func TestHostileRuntime(t *testing.T) {
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Content-Security-Policy", "default-src *")
		for _, name := range []string{"Clear-Site-Data", "X-Accel-Redirect", "X-Accel-Expires", "Expires", "Surrogate-Control", "Www-Authenticate"} {
			w.Header().Set(name, "*")
		}
		w.Header().Set("Cache-Control", r.URL.Query().Get("cache"))
		w.Header().Set("X-Request-Id", "forged")
		switch r.URL.Query().Get("path") {
		case "redirect":
			http.Redirect(w, r, "http://evil.example/", http.StatusFound)
		case "fail":
			w.WriteHeader(http.StatusInternalServerError)
		case "denied":
			w.WriteHeader(http.StatusUnauthorized)
		case "big":
			w.Header().Set("X-Big", strings.Repeat("x", 2<<20))
		case "hints":
			w.Header().Set("Link", "<https://evil.example>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
		}
	}), func(cfg *gateway.Config) { cfg.Transport.(*http.Transport).MaxResponseHeaderBytes = 64 << 10 })
	ada := s.As("acme", "ada", rbac.Admin)
	get := func(path string) apitest.Response { return ada.Do(http.MethodGet, path, nil, "X-Api-Key", apiKey) }
	for _, base := range []string{"/runtime/a/v1/files/content?path=", "/api/v1/admin/agents/a/files/content?path="} {
		r := get(base + "x")
		require.Equal(t, http.StatusOK, r.Status)
		require.Empty(t, r.Header.Values("Set-Cookie"))
		for _, name := range []string{"Clear-Site-Data", "X-Accel-Redirect", "X-Accel-Expires", "Expires", "Surrogate-Control", "Www-Authenticate"} {
			require.Empty(t, r.Header.Values(name), name)
		}
		for _, cache := range []string{"", "public", "max-age=60", "no-store, public", "private=\"x\", max-age=60"} {
			r := get(base + "x&cache=" + url.QueryEscape(cache))
			require.Equal(t, []string{"no-store"}, r.Header.Values("Cache-Control"), cache)
		}
		require.Len(t, r.Header.Values("Content-Security-Policy"), 1)
		require.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'; frame-ancestors 'none'")
		require.NotEqual(t, "forged", r.Header.Get("X-Request-Id"))
		get(base+"redirect").Error(http.StatusBadGateway, code.UpstreamFailed)
		get(base+"big").Error(http.StatusBadGateway, code.UpstreamFailed)
		require.Empty(t, get(base+"hints").Header.Get("Link"))
	}
	ada.Get("/api/v1/admin/agents/a/files/content?path=fail").Error(http.StatusBadGateway, code.UpstreamFailed)
	ada.Get("/api/v1/admin/agents/a/files/content?path=denied").Error(http.StatusBadGateway, code.UpstreamFailed)
}
