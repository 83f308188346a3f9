package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/wire"
)

// serve starts a model server.
func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

func reply(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// probe tests an unsaved configuration and returns the result.
func (s *server) probe(url string, change object) object {
	body := object{"protocol": "openai", "baseUrl": url, "apiKey": plantedKey}
	maps.Copy(body, change)
	res := s.acme.Post(admin+"/probe", body)
	require.NotContains(s.t, res.Text, plantedKey)
	return res.Want(http.StatusOK)
}

func TestProbe(t *testing.T) {
	s := onSQLite(t, nil)
	var got *http.Request
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = io.WriteString(w, `{"data":[{"id":"m1","display_name":"Model 1"},{"id":"m2","extra":1}],"more":{}}`)
	})
	result := s.probe(server.URL+"/v1", nil)
	require.Equal(t, []any{"GET /v1/models", "Bearer " + plantedKey, ""}, []any{got.Method + " " + got.URL.String(), got.Header.Get("Authorization"), got.Header.Get("X-Api-Key")})
	require.IsType(t, 0.0, result["latencyMs"])
	delete(result, "latencyMs")
	require.Equal(t, object{
		"ok": true, "httpStatus": 200.0, "message": "The server accepts the configuration.", "checkedAt": "2026-03-01T12:00:00.123456Z",
		"models": []any{object{"id": "m1", "displayName": "Model 1"}, object{"id": "m2"}},
	}, result)
	s.probe(server.URL, object{"protocol": "anthropic"})
	require.Equal(t, []string{"/v1/models?limit=1000", plantedKey, "", "2023-06-01"}, []string{
		got.URL.String(), got.Header.Get("X-Api-Key"), got.Header.Get("Authorization"), got.Header.Get("Anthropic-Version"),
	})
	s.probe(server.URL, object{"authStyle": "none"})
	require.Equal(t, []string{"", ""}, []string{got.Header.Get("X-Api-Key"), got.Header.Get("Authorization")})

	id := create(s.acme, gateway(object{"baseUrl": server.URL, "authStyle": "api_key"}))
	require.Equal(t, true, s.acme.Post(admin+"/"+id+"/probe", nil).Want(http.StatusOK)["ok"])
	require.Equal(t, plantedKey, got.Header.Get("X-Api-Key"))
	demo := s.acme.Post(admin+"/demo/probe", nil).Want(http.StatusOK)
	require.Equal(t, true, demo["ok"])
	require.NotContains(t, demo, "models")
	log := s.Audit("acme")
	require.Equal(t, `provider.probe  {"protocol":"openai","authStyle":"bearer","baseUrl":"`+server.URL+`/v1","httpStatus":200}`, log[0])
	require.Equal(t, `provider.probe Gateway {"protocol":"openai","authStyle":"api_key","baseUrl":"`+server.URL+`","httpStatus":200}`, log[4])
	require.Equal(t, `provider.probe Demo {"protocol":"demo","authStyle":"none","baseUrl":""}`, log[5])
	require.Len(t, log, 6)
}

func TestProbesThatFail(t *testing.T) {
	s := onSQLite(t, nil)
	secure := httptest.NewTLSServer(reply(200, `{"data":[]}`))
	t.Cleanup(secure.Close)
	closed := serve(t, reply(200, ""))
	closed.Close()
	var followed atomic.Bool
	target := serve(t, func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	redirect := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	status := func(code int) string { return serve(t, reply(code, plantedKey)).URL }
	body := func(text string) string { return serve(t, reply(200, text)).URL }
	for code, urls := range map[string][]string{
		"unauthorized":     {status(401), status(403)},
		"not_found":        {status(404), status(405)},
		"rate_limited":     {status(429)},
		"server_error":     {status(500), status(400), status(204)},
		"redirected":       {redirect.URL, status(304)},
		"invalid_response": {body(""), body("<html>"), body(`{}`), body(`{"data":1}`), body(`[]`), body(`{"data":null}`)},
		"tls_failed":       {secure.URL, strings.Replace(target.URL, "http:", "https:", 1)},
		"connect_failed":   {closed.URL},
		"lookup_failed":    {"http://name.invalid"},
	} {
		for i, url := range urls {
			result := s.probe(url, nil)
			require.Equal(t, []any{false, code}, []any{result["ok"], result["errorCode"]}, "%s %d", code, i)
			require.NotContains(t, result, "models")
			require.NotContains(t, fmt.Sprint(result["message"]), "127.0.0.1")
		}
	}
	require.False(t, followed.Load())
	s.acme.Post(admin+"/probe", object{"protocol": "openai", "baseUrl": "http://0x7f.1"}).Error(http.StatusBadRequest, wire.ValidationFailed)
}

// Addresses of metadata services are denied even if private addresses are permitted.
func TestProbesOfDeniedAddresses(t *testing.T) {
	for _, private := range []bool{true, false} {
		t.Run(fmt.Sprint("private ", private), func(t *testing.T) {
			s := onSQLite(t, func(cfg *provider.Config) { cfg.ProbePrivate = private })
			hit := false
			server := serve(t, func(http.ResponseWriter, *http.Request) { hit = true })
			port := server.URL[strings.LastIndexByte(server.URL, ':'):]
			hosts := []string{
				"169.254.169.254", "[fe80::1]", "100.100.100.200", "168.63.129.16", "[fd00:ec2::254]", "[fd20:ce::254]", "192.0.0.192", "0.0.0.0", "[::]",
				"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[2002:7f00:1::1]", "[::127.0.0.1]",
				"224.0.0.1", "255.255.255.255",
			}
			if !private {
				hosts = append(hosts, "127.0.0.1", "localhost", "[::1]", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "[fd00::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]")
			}
			for _, host := range hosts {
				result := s.probe("http://"+host+port, nil)
				require.Equal(t, "address_denied", result["errorCode"], host)
			}
			// Other forms of an address are not accepted as a host.
			for _, host := range []string{"2130706433", "2852039166", "0177.0.0.1", "0x7f.0.0.1", "0xa9fea9fe", "127.1", "169.254.43518", "[fe80::1%25lo]"} {
				s.acme.Post(admin+"/probe", object{"protocol": "openai", "baseUrl": "http://" + host + port}).Error(http.StatusBadRequest, wire.ValidationFailed)
			}
			require.False(t, hit)
		})
	}
}

// A server cannot make a probe return its key, however it echoes it.
func TestAServerThatEchoesTheKey(t *testing.T) {
	s := onSQLite(t, nil)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.Header().Set("X-Echo", key)
		_, _ = fmt.Fprintf(w, `{"data":[{"id":%q},{"id":"m-%s"},{"id":"m","display_name":%q},{"id":"a\u0007b"},{"id":%q},{"id":""}]}`,
			key, key, key, strings.Repeat("m", 129))
	})
	require.Equal(t, []any{object{"id": "m"}}, s.probe(server.URL, nil)["models"])
	id := create(s.acme, gateway(object{"baseUrl": server.URL}))
	res := s.acme.Post(admin+"/"+id+"/probe", nil)
	require.NotContains(t, res.Text, plantedKey)
	require.Equal(t, []any{object{"id": "m"}}, s.probe(server.URL, object{"apiKey": "m-key"})["models"])
	require.NotContains(t, s.Log.String()+s.log.String()+strings.Join(s.Audit("acme"), ""), plantedKey)
}

func TestAServerThatSendsForever(t *testing.T) {
	s := onSQLite(t, nil)
	var sent atomic.Int64
	chunk := []byte(strings.Repeat(" ", 64<<10))
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for sent.Load() < 1<<30 {
			n, err := w.Write(chunk)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	require.Equal(t, "invalid_response", s.probe(server.URL, nil)["errorCode"])
	server.Close()
	require.Less(t, sent.Load(), int64(64<<20))
}

func TestAServerThatDoesNotRespond(t *testing.T) {
	s := onSQLite(t, func(cfg *provider.Config) { cfg.ProbeTimeout = 100 * time.Millisecond })
	silent := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"data":[`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	require.Equal(t, "timeout", s.probe(silent.URL, nil)["errorCode"])
	require.Equal(t, "timeout", s.probe(slow.URL, nil)["errorCode"])
}

// A tenant cannot take all slots for probes, and a probe is recorded although its client is gone.
func TestConcurrentProbesAreLimited(t *testing.T) {
	s := onSQLite(t, nil)
	arrived, release := make(chan struct{}), make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		reply(200, `{"data":[]}`)(w, r)
	})
	in := provider.ProbeInput{ProbeRequest: wire.ProbeRequest{Protocol: "openai", BaseURL: server.URL}}
	ctx, cancel := context.WithCancelCause(t.Context())
	results := make(chan wire.ProbeResult, 4)
	for i := range 4 {
		go func() {
			ctx := ctx
			if i > 0 {
				ctx = t.Context()
			}
			result, err := s.service.Probe(ctx, s.acme.Caller, in)
			if err != nil {
				result.Message = err.Error()
			}
			results <- result
		}()
		<-arrived
	}
	res := s.acme.Post(admin+"/probe", object{"protocol": "openai", "baseUrl": server.URL})
	res.Error(http.StatusTooManyRequests, wire.RateLimited)
	require.Equal(t, "5", res.Header.Get("Retry-After"))
	denied := s.beta.Post(admin+"/probe", object{"protocol": "openai", "baseUrl": "http://169.254.169.254"}).Want(http.StatusOK)
	require.Equal(t, "address_denied", denied["errorCode"])
	cancel(errors.New("the client is gone"))
	require.Equal(t, provider.ProbeConnectFailed, (<-results).ErrorCode)
	close(release)
	for range 3 {
		require.True(t, (<-results).OK)
	}
	require.Len(t, s.Audit("acme"), 4)
}
