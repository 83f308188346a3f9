package session_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/store"
	users "github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

var engines = []struct {
	name string
	url  func(testing.TB, ...db.Series) string
}{{"sqlite", dbtest.SQLite}, {"postgres", dbtest.PostgreSQL}}

// paced is the time between two requests of one of 64 connections which together send 15,000 a
// second.
const paced = 64 * time.Second / 15_000

// BenchmarkUserinfo is an authenticated GET through the whole handler over HTTP on loopback, from
// 64 connections: each with a session of its own, or all with one, as fast as they go, or at a
// given rate. For comparison, the same response from the same handler without authentication, and
// from plain net/http. Client and server share the cores.
func BenchmarkUserinfo(b *testing.B) {
	for _, engine := range engines {
		handler, _, tokens := benchHub(b, engine.url(b), 64)
		b.Run(engine.name+"/64 sessions", func(b *testing.B) { load(b, handler, "/auth/userinfo", tokens, 0) })
		b.Run(engine.name+"/64 sessions paced", func(b *testing.B) { load(b, handler, "/auth/userinfo", tokens, paced) })
		b.Run(engine.name+"/one session", func(b *testing.B) {
			load(b, handler, "/auth/userinfo", slices.Repeat(tokens[:1], len(tokens)), 0)
		})
		b.Run(engine.name+"/without authentication", func(b *testing.B) { load(b, handler, "/open", make([]string, len(tokens)), 0) })
	}
	alone := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(userinfoLike)
	})
	b.Run("net http alone", func(b *testing.B) { load(b, alone, "/", make([]string, 64), 0) })
	b.Run("net http alone paced", func(b *testing.B) { load(b, alone, "/", make([]string, 64), paced) })
}

var userinfoLike = []byte(`{"id":"018f0000-0000-7000-8000-000000000000","username":"root","display_name":"root","role":"admin",` +
	`"tenant_id":"default","org_id":"default","auth_mode":"builtin","token_type":"session"}` + "\n")

func benchHub(b testing.TB, url string, sessions int) (handler http.Handler, service *session.Service, tokens []string) {
	return benchHubAt(b, url, sessions, time.Now)
}

func benchHubAt(b testing.TB, url string, sessions int, now func() time.Time) (handler http.Handler, service *session.Service, tokens []string) {
	d := dbtest.Open(b, url, users.Migrations, db.Series{Name: "auditlog", Files: sqlaudit.Migrations()})
	audit, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
	require.NoError(b, err)
	keyring, err := secret.Parse(secret.Generate())
	require.NoError(b, err)
	handle, err := store.New(store.Config{DB: d, Keyring: keyring, Audit: audit, Now: now})
	require.NoError(b, err)
	opened := config{Store: handle, SetupToken: password}.open(b)
	service = opened.service
	open := api.Route{Method: http.MethodGet, Path: "/open", Access: api.Open, Handle: func(w http.ResponseWriter, _ *http.Request) error {
		return api.Encode(w, http.StatusOK, object{"id": "018f0000-0000-7000-8000-000000000000", "username": "root", "display_name": "root",
			"role": "admin", "tenant_id": "default", "org_id": "default", "auth_mode": "builtin", "token_type": "session"})
	}}
	handler, err = api.New(api.Config{Authenticate: service.Authenticate}, append(opened.routes(), open)...)
	require.NoError(b, err)
	tokens = append(tokens, benchLogin(b, handler, "/auth/setup"))
	for len(tokens) < sessions {
		tokens = append(tokens, benchLogin(b, handler, "/auth/login"))
	}
	return handler, service, tokens
}

func benchLogin(b testing.TB, handler http.Handler, path string) (token string) {
	return benchPost(b, handler, path, `{"username":"root","password":"`+password+`","setup_token":"`+password+`"}`).access()
}

func benchPost(b testing.TB, handler http.Handler, path, text string) (body object) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(text))
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	require.NoError(b, json.Unmarshal(w.Body.Bytes(), &body), "%s", w.Body)
	return body
}

// load sends b.N requests, each token over a connection of its own, one after the other: with a
// pace, each at its time or as soon after it as the response before arrives, and counted from its
// time.
func load(b *testing.B, handler http.Handler, path string, tokens []string, pace time.Duration) {
	server := httptest.NewServer(handler)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	var wg sync.WaitGroup
	times := make([][]time.Duration, len(tokens))
	before := cpu(b)
	b.ResetTimer()
	for i, token := range tokens {
		n := b.N / len(tokens)
		if i < b.N%len(tokens) {
			n++
		}
		begin := time.Now().Add(pace * time.Duration(i) / time.Duration(len(tokens)))
		wg.Go(func() { times[i] = requests(b, address, path, token, n, begin, pace) })
	}
	wg.Wait()
	b.StopTimer()
	spent := cpu(b) - before
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
}

// cpu is what client and server have taken of the cores.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// requests speaks HTTP by hand: net/http's client would take more of the cores than the server.
func requests(b *testing.B, address, path, token string, n int, begin time.Time, pace time.Duration) []time.Duration {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer conn.Close()
	request := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
	if token != "" {
		request += "Authorization: Bearer " + token + "\r\n"
	}
	request += "\r\n"
	times, in, sent := make([]time.Duration, 0, n), bufio.NewReader(conn), []byte(request)
	for range n {
		if pace == 0 {
			begin = time.Now()
		} else if early := time.Until(begin); early > 0 {
			<-time.After(early)
		}
		if _, err = conn.Write(sent); err != nil {
			b.Error(err)
			return times
		}
		if err := readResponse(in); err != nil {
			b.Error(err)
			return times
		}
		times = append(times, time.Since(begin))
		begin = begin.Add(pace)
	}
	return times
}

func readResponse(in *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("response %q", line)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("Content-Length: "):]))); err != nil {
				return err
			}
		case len(line) == 2:
			_, err := in.Discard(length)
			return err
		}
	}
}

// BenchmarkAuthenticate is only the check of a bearer token, of a session and of a CLI token.
func BenchmarkAuthenticate(b *testing.B) {
	handler, service, tokens := benchHub(b, dbtest.SQLite(b), 1)
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+issuePath, strings.NewReader(`{"name":"bench"}`))
	r.Header.Set("Authorization", "Bearer "+tokens[0])
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	var body object
	require.NoError(b, json.Unmarshal(w.Body.Bytes(), &body), "%s", w.Body)
	for name, token := range map[string]string{"session": tokens[0], "cli": body["token"].(string)} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/auth/userinfo", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := service.Authenticate(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLogin is mostly one argon2id hash.
func BenchmarkLogin(b *testing.B) {
	for _, engine := range engines {
		handler, _, _ := benchHub(b, engine.url(b), 1)
		b.Run(engine.name, func(b *testing.B) {
			for b.Loop() {
				benchLogin(b, handler, "/auth/login")
			}
		})
	}
}

// BenchmarkRefresh rotates one token again and again.
func BenchmarkRefresh(b *testing.B) {
	for _, engine := range engines {
		var passed time.Duration // a session is refreshed at most 10 times a minute
		handler, _, _ := benchHubAt(b, engine.url(b), 1, func() time.Time { return time.Now().Add(passed) })
		b.Run(engine.name, func(b *testing.B) {
			body := benchPost(b, handler, "/auth/login", `{"username":"root","password":"`+password+`"}`)
			for b.Loop() {
				passed += 6 * time.Second
				body = benchPost(b, handler, "/auth/refresh", `{"refresh_token":"`+body.text("refresh_token")+`"}`)
			}
		})
	}
}
