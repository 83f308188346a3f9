package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/demo"
)

const (
	setupToken = "a setup token of some length"
	password   = "correct horse battery"
	opsKey     = "an operations key of 32 characters"
)

// server is a hub on SQLite, whose runtimes are in this process.
type server struct {
	t       testing.TB
	url     string
	advance atomic.Int64 // of the clock
	down    atomic.Bool  // the server ends every connection
	loses   atomic.Bool  // the responses to messages
	refused atomic.Int32 // the status of refreshes of pages, or 0
	instead sync.Map     // bodies of responses by their paths, as of a hub of another version
	front   *httptest.Server
	delay   time.Duration // of the demo model
	model   model.Model   // in place of the demo model
	events  string        // of each run, in place of those of the runtime
	resumed string        // of each run with answers, likewise
	answers chan string   // the bodies of those
}

func serve(t testing.TB, change ...func(*hub.Config)) *server {
	t.Helper()
	s := &server{t: t, delay: time.Millisecond}
	front := httptest.NewUnstartedServer(nil)
	s.url = "http://" + front.Listener.Addr().String()
	deployer := &deploytest.Memory{Serve: s.runtime}
	t.Cleanup(deployer.Close)
	cfg := hub.Config{
		DatabaseURL: "sqlite://" + filepath.Join(t.TempDir(), "hub.db"), EncryptionKeys: []string{secret.Generate()},
		SetupToken: setupToken, PublicURL: s.url, OpsKey: opsKey, Version: "1.2.3", Artifacts: &blob.Memory{}, Deployer: deployer, ProbePrivate: true,
		CheckTool: func(_ context.Context, _, source string) (string, error) {
			_, name, ok := strings.Cut(source, "name: '")
			name, _, _ = strings.Cut(name, "'")
			if !ok {
				return "", code.ArtifactInvalid.New("The file has no default export with a name.")
			}
			return name, nil
		},
		Now: func() time.Time { return time.Now().Add(time.Duration(s.advance.Load())) },
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := hub.New(t.Context(), cfg)
	require.NoError(t, err)
	at := strings.TrimPrefix(cfg.PublicURL, s.url)
	s.url = cfg.PublicURL
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler)
		}
		if status := int(s.refused.Load()); status > 0 && strings.HasSuffix(r.URL.Path, "/console/session/refresh") {
			w.WriteHeader(status)
			return
		}
		if body, ok := s.instead.Load(r.URL.Path); ok && r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body.(string)))
			return
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") && s.loses.Load() {
			http.StripPrefix(at, h).ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		http.StripPrefix(at, h).ServeHTTP(w, r)
	})
	front.Start()
	s.front = front
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		require.NoError(t, h.Close())
	})
	return s
}

// cut ends all connections, and those that begin until down is false.
func (s *server) cut() {
	s.down.Store(true)
	s.front.CloseClientConnections()
}

// runtime returns the runtime of a deployment, with a working directory of its own.
func (s *server) runtime(req deploy.Request) (http.Handler, error) {
	dir := s.t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "notes.md"), []byte("# Notes\n\nA file of the agent.\n"), 0o600), os.Mkdir(filepath.Join(dir, "data"), 0o700),
		os.WriteFile(filepath.Join(dir, "data", "numbers.csv"), []byte("a,b\n1,2\n"), 0o600))
	if err != nil {
		return nil, err
	}
	rt, err := runtime.New(s.t.Context(), runtime.Config{
		CWD: dir, APIKeys: strings.Split(string(req.Env[deploy.EnvAPIKey]), ","), Agents: []agent.Agent{req.Config},
		NewModel: func(agent.Provider) (model.Model, error) {
			if s.model != nil {
				return s.model, nil
			}
			return demo.New(s.delay), nil
		},
	})
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = rt.Close() })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.events == "" || !strings.HasSuffix(r.URL.Path, "/runs") {
			rt.ServeHTTP(w, r)
			return
		}
		events := s.events
		if s.resumed != "" {
			body, _ := io.ReadAll(r.Body) // that of a run that is cancelled ends early
			if strings.Contains(string(body), `"answers"`) {
				events = s.resumed
				s.answers <- string(body)
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(events))
	}), nil
}

// call sends a request with a bearer token, unless it is empty, and returns the body of the
// response.
func (s *server) call(method, path, token string, body any, want int) (result map[string]any) {
	s.t.Helper()
	data, err := json.Marshal(body)
	require.NoError(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(data))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Ops-Key", opsKey)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, want, res.StatusCode, "%s: %s", path, text.String())
	_ = json.Unmarshal(text.Bytes(), &result) // 204 has none
	return result
}

func (s *server) setUp() (token string) {
	s.t.Helper()
	account := map[string]string{"username": "root", "password": password, "setup_token": setupToken}
	return s.call("POST", "/auth/setup", "", account, http.StatusCreated)["access_token"].(string)
}
