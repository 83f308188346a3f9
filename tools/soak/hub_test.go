package soak_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

const (
	password      = "correct horse battery"
	kindJSON      = "application/json"
	kindForm      = "application/x-www-form-urlencoded"
	kindMultipart = "multipart/form-data; boundary=x"
)

// engine returns the settings of a database, and the function that returns its size in bytes.
type engine func(t *testing.T, dir string) (env []string, size func(context.Context) (int64, error))

func sqlite(_ *testing.T, dir string) ([]string, func(context.Context) (int64, error)) {
	return nil, func(context.Context) (sum int64, err error) {
		files, err := filepath.Glob(filepath.Join(dir, "hub.db*"))
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				sum += info.Size()
			}
		}
		return sum, err
	}
}

func postgres(t *testing.T, _ string) ([]string, func(context.Context) (int64, error)) {
	url := pgtest.Start(t, "autovacuum=on", "autovacuum_naptime=5s").URL(t)
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return []string{"DATABASE_URL=" + url}, func(ctx context.Context) (size int64, err error) {
		err = db.QueryRowContext(ctx, "SELECT pg_database_size(current_database())").Scan(&size)
		return size, err
	}
}

// hub is a hub with users and their access tokens.
type hub struct {
	*server
	tokens map[string]string
}

// launchHub starts a hub without users.
func launchHub(t *testing.T, on engine, more ...string) *hub {
	dir, key := t.TempDir(), make([]byte, 32)
	_, _ = rand.Read(key)
	env, size := on(t, dir)
	env = append(env, "HUB_DATA_DIR="+dir, "DEPLOYER=none", "PROVIDER_ENCRYPTION_KEY="+base64.StdEncoding.EncodeToString(key))
	h := &hub{tokens: map[string]string{}}
	h.server = start(t, dir, append(env, more...), filepath.Join(binaries, "hub"), "--addr", "127.0.0.1:0")
	h.database = size
	return h
}

func startHub(t *testing.T, on engine) *hub {
	const setup = "0123456789abcdef"
	h := launchHub(t, on, "HUB_SETUP_TOKEN="+setup)
	post := func(path, user, body string) string {
		access, _, err := h.do(t.Context(), nil, path, user, body, kindJSON, http.StatusOK, http.StatusCreated, http.StatusNoContent)
		require.NoError(t, err)
		return access
	}
	h.tokens["admin"] = post("/auth/setup", "", `{"username":"admin","password":"`+password+`","setup_token":"`+setup+`"}`)
	for user, role := range map[string]string{"maintainer": "maintainer", "member": "member", "refresher": "member", "ada": "member"} {
		const first = "a password to change"
		post("/api/v1/admin/users", "admin", fmt.Sprintf(`{"username":%q,"password":%q,"role":%q}`, user, first, role))
		h.tokens[user] = post("/auth/login", "", fmt.Sprintf(`{"username":%q,"password":%q}`, user, first))
		post("/auth/change-password", user, fmt.Sprintf(`{"old_password":%q,"new_password":%q}`, first, password))
	}
	return h
}

func credentials(user string) string {
	return fmt.Sprintf(`{"username":%q,"password":%q}`, user, password)
}

// do sends a request that must have one of the statuses. Its path may follow a method; the default
// is GET without a body, and POST with one. It returns the tokens in the response.
func (h *hub) do(ctx context.Context, client *http.Client, path, user, body, contentType string, statuses ...int) (access, refresh string, err error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	if before, after, ok := strings.Cut(path, " "); ok {
		method, path = before, after
	}
	status, text, err := send(ctx, method, h.url+path, client, body, "Authorization", "Bearer "+h.tokens[user], "Content-Type", contentType)
	if err != nil || !slices.Contains(statuses, status) {
		return "", "", fmt.Errorf("%s: status %d instead of %v: %.300q: %w", path, status, statuses, text, err)
	}
	var pair struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	_ = json.Unmarshal([]byte(text), &pair) // not every response has tokens
	return pair.AccessToken, pair.RefreshToken, nil
}

// from returns a client that connects from a loopback address.
func from(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 200}}
}

// signIn returns the other caller: a user who signs in from another network.
func (h *hub) signIn() func(ctx context.Context) error {
	client := from("127.0.2.1")
	return func(ctx context.Context) error {
		_, _, err := h.do(ctx, client, "/auth/login", "", credentials("ada"), kindJSON, http.StatusOK)
		return err
	}
}

// signIns is the flood of logins with one credential on 120 connections.
func signIns(on engine) func(t *testing.T) attack {
	return func(t *testing.T) attack {
		h := startHub(t, on)
		flooder := from("127.0.1.1")
		return attack{server: h.server, pause: 2 * time.Second, parallel: 120, other: h.signIn(),
			step: func(ctx context.Context, _ int) error {
				_, _, err := h.do(ctx, flooder, "/auth/login", "", credentials("member"), kindJSON, http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable)
				return err
			}}
	}
}

// writes are requests that add rows: denied ones, refreshes, sessions, tokens and invites.
func writes(on engine) func(t *testing.T) attack {
	return func(t *testing.T) attack {
		h := startHub(t, on)
		invite := func(ctx context.Context, status int) error {
			_, _, err := h.do(ctx, nil, "/api/v1/admin/invites", "admin", `{"role":"member"}`, kindJSON, status)
			return err
		}
		issue := func(ctx context.Context, status int) error {
			_, _, err := h.do(ctx, nil, "/api/v1/cli/issue-token", "maintainer", `{"name":"x","expiresInDays":1}`, kindJSON, status)
			return err
		}
		for i := range 1000 { // the caps are 1,000 invites and 100 tokens
			require.NoError(t, invite(t.Context(), http.StatusCreated))
			if i < 100 {
				require.NoError(t, issue(t.Context(), http.StatusCreated))
			}
		}
		_, token, err := h.do(t.Context(), nil, "/auth/login", "", credentials("refresher"), kindJSON, http.StatusOK)
		require.NoError(t, err)
		return attack{server: h.server, pause: 50 * time.Millisecond, other: h.signIn(),
			step: func(ctx context.Context, n int) error {
				switch n % 5 {
				case 0:
					_, _, err := h.do(ctx, nil, "/api/v1/admin/users", "member", "", "", http.StatusForbidden, http.StatusTooManyRequests)
					return err
				case 1:
					_, next, err := h.do(ctx, nil, "/auth/refresh", "", `{"refresh_token":"`+token+`"}`, kindJSON, http.StatusOK, http.StatusTooManyRequests)
					token = cmp.Or(next, token) // a rejected refresh leaves the token
					return err
				case 2:
					return invite(ctx, http.StatusConflict)
				case 3:
					return issue(ctx, http.StatusConflict)
				}
				access, _, err := h.do(ctx, nil, "/auth/login", "", credentials("member"), kindJSON, http.StatusOK, http.StatusTooManyRequests)
				h.tokens["member"] = cmp.Or(access, h.tokens["member"]) // the oldest session has ended
				return err
			}}
	}
}

// aliases is YAML whose aliases multiply.
var aliases = "a: &a [x,x,x,x,x,x,x,x,x]\n" + repeat(9, func(i int) string {
	return fmt.Sprintf("%c: &%c [%s]\n", 'b'+i, 'b'+i, strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 9))
})

// doubling is an enum whose last member has 4 GiB.
var doubling = "enum E{a='" + strings.Repeat("x", 128) + "'," + repeat(25, func(i int) string { return fmt.Sprintf("%c=%c+%c,", 'b'+i, 'a'+i, 'a'+i) }) + "}"

// form is the body of an upload of a file.
func form(name, content string) string {
	return "--x\r\nContent-Disposition: form-data; name=file; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n--x--\r\n"
}

// directories is a skill whose files have 255 directories each.
func directories(t *testing.T) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range 1998 {
		_, err := w.Create(strings.Repeat("é/", 255) + fmt.Sprint(i))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String()
}

// uploads are files of two organizations that the hub checks. The other caller is a third one,
// which uploads too.
func uploads(t *testing.T) attack {
	h, _ := startExternal(t)
	const tools, skills, agents = "/api/v1/admin/tools", "/api/v1/admin/skills", "/api/v1/admin/agents/import"
	files := []struct{ path, name, content string }{
		{skills, "s.tar.gz", gzipped(256 * mib)}, {skills, "s.zip", "PK\x03\x04" + strings.Repeat("PK\x01\x02", mib)},
		{skills, "SKILL.md", "---\n" + strings.Repeat("[", 60_000) + "\n---\n"}, {skills, "SKILL.md", "---\n" + strings.Repeat("{a: ", 10_000) + "\n---\n"},
		{tools, "t.ts", strings.Repeat("[", 400_000)}, {tools, "t.ts", strings.Repeat("!", 200_000) + "1"}, {tools, "t.ts", "enum A {" + strings.Repeat("a=1,", 200_000) + "}"},
		{tools, "t.ts", `const x = "` + strings.Repeat("${`", 100_000)}, {tools, "t.ts", strings.Repeat("a?.b", mib)}, {tools, "t.ts", strings.Repeat("<A>", 200_000)},
		{tools, "t.ts", "let x\n/'/;" + strings.Repeat("(", 260_000)}, {tools, "t.ts", "x=()=>" + strings.Repeat("a?(b):c=>", 40) + "d"}, {tools, "t.ts", doubling},
		{tools, "t.ts", "type T=" + strings.Repeat("infer B extends (", 40) + "C" + strings.Repeat(")?D:E", 40)}, {tools, "t.ts", "'" + strings.Repeat(`\u{`, mib)}, {tools, "t.ts", strings.Repeat(`\u{`, 5<<20/3)},
		{tools, "t.ts", "let a = b" + strings.Repeat("<(c: d) => ", 500)}, {skills, "directories.zip", directories(t)},
		{agents, "", aliases + "agents: *i\n"}, {agents, "", "agents: " + strings.Repeat("[", 500_000)}, {agents, "", "agents: &a [*a]"}, {agents, "", strings.Repeat("? ", 300_000)},
		{agents, "", "<<: {<<: {<<: x}}\n" + strings.Repeat("a: 1\n", 100_000)}, {agents, "", `{"agents":` + strings.Repeat(`[{"id":`, 100_000)},
	}
	fine := form("fine.ts", toolFile("fine", "", anyInput, `return "fine"`))
	_, _, err := h.do(t.Context(), nil, tools, "gamma", fine, kindMultipart, http.StatusCreated)
	require.NoError(t, err)
	return attack{server: h.server, pause: 500 * time.Millisecond, parallel: 2, peak: 1024 * mib,
		step: func(ctx context.Context, n int) error {
			f := files[n/2%len(files)]
			kind, body := "application/yaml", f.content
			if f.name != "" {
				kind, body = kindMultipart, form(f.name, body)
			}
			_, _, err := h.do(ctx, nil, f.path, organizations[n%2], body, kind,
				http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable)
			if err != nil {
				err = fmt.Errorf("%s %.60q: %w", f.name, f.content, err)
			}
			return err
		},
		other: func(ctx context.Context) error {
			_, _, err := h.do(ctx, nil, "PUT "+tools+"/fine/file", "gamma", fine, kindMultipart, http.StatusOK)
			return err
		}}
}

// pipeline sends requests without their last line on a connection. Each response must have one of
// the statuses.
func pipeline(ctx context.Context, s *server, count int, request func(i int) string, statuses ...int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go func() {
		w := bufio.NewWriter(conn)
		for i := range count {
			_, _ = w.WriteString(request(i) + "\r\n")
		}
		_ = w.Flush()
	}()
	responses := bufio.NewReader(conn)
	for i := range count {
		res, err := http.ReadResponse(responses, nil)
		if err != nil {
			return fmt.Errorf("response %d: %w", i, err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err != nil || !slices.Contains(statuses, res.StatusCode) {
			return fmt.Errorf("response %d: status %d: %w", i, res.StatusCode, err)
		}
	}
	return nil
}

// readers are connections of one member who reads pages of messages slowly. The other caller is a
// member with a conversation.
func readers(t *testing.T) attack {
	h := startHub(t, postgres)
	const messages = "/api/v1/agents/helper/chat/sessions/s/messages?page_size=100"
	_, _, err := h.do(t.Context(), nil, "/api/v1/admin/agents", "admin", `{"name":"helper","providerId":"demo","model":"demo"}`, kindJSON, http.StatusCreated)
	require.NoError(t, err)
	for user, text := range map[string]string{"member": strings.Repeat("x", 2*mib-8<<10), "ada": "hello"} {
		const at = "2026-01-02T03:04:05Z"
		var list []object
		for i := range 4 {
			list = append(list, object{"id": fmt.Sprint(i), "role": "user", "created_at": at, "content": text})
		}
		push, _ := json.Marshal(object{"sessions": []object{{"id": "s", "agent_name": "helper", "created_at": at, "updated_at": at, "messages": list}}})
		_, _, err := h.do(t.Context(), nil, "/api/v1/chat/push", user, string(push), kindJSON, http.StatusOK)
		require.NoError(t, err)
	}
	return attack{server: h.server, pause: 100 * time.Millisecond, parallel: 40, peak: 384 * mib,
		step: func(ctx context.Context, _ int) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(h.url, "http://"))
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", messages, h.tokens["member"])
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusTooManyRequests {
				return fmt.Errorf("%v: %w", res, err)
			}
			for tick, i := time.NewTicker(time.Second), 0; i < 10 && res.StatusCode == http.StatusOK; i++ {
				if _, err := io.CopyN(io.Discard, res.Body, 1<<10); err != nil {
					return err
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
			return nil
		},
		other: func(ctx context.Context) error {
			_, _, err := h.do(ctx, nil, messages, "ada", "", "", http.StatusOK)
			return err
		}}
}

// components are changes of an agent while 100 large MCP servers with secrets exist.
func components(t *testing.T) attack {
	h := startHub(t, sqlite)
	var mcps []string
	for i := range 100 {
		name := fmt.Sprint("m", i)
		env := object{"A": strings.Repeat("a", 30<<10), "B": strings.Repeat("b", 30<<10)}
		body, _ := json.Marshal(object{"name": name, "transport": "stdio", "command": "x", "env": env})
		_, _, err := h.do(t.Context(), nil, "/api/v1/admin/mcps", "admin", string(body), kindJSON, http.StatusCreated)
		require.NoError(t, err)
		mcps = append(mcps, name)
	}
	agent := func(n int) string {
		body, _ := json.Marshal(object{"name": "helper", "providerId": "demo", "model": "demo", "description": fmt.Sprint(n), "mcps": mcps})
		return string(body)
	}
	_, _, err := h.do(t.Context(), nil, "/api/v1/admin/agents", "admin", agent(-1), kindJSON, http.StatusCreated)
	require.NoError(t, err)
	return attack{server: h.server, pause: 100 * time.Millisecond, cost: 200 * time.Millisecond, other: h.signIn(),
		step: func(ctx context.Context, n int) error {
			_, _, err := h.do(ctx, nil, "PUT /api/v1/admin/agents/helper", "admin", agent(n), kindJSON, http.StatusOK)
			return err
		}}
}

// large are requests of a maintainer with many values, faults or bytes: forms, lists of agents full
// of markup, and imports among many providers. The other caller signs in.
func large(t *testing.T) attack {
	h := startHub(t, sqlite)
	const agents, providers = "/api/v1/admin/agents", "/api/v1/admin/providers"
	post := func(path string, body object) {
		text, _ := json.Marshal(body)
		_, _, err := h.do(t.Context(), nil, path, "maintainer", string(text), kindJSON, http.StatusCreated)
		require.NoError(t, err)
	}
	for i := range 100 {
		post(agents, object{"name": fmt.Sprint("a", i), "providerId": "demo", "model": "demo", "systemPrompt": strings.Repeat("<", 150_000)})
		post(providers, object{"name": fmt.Sprint("p", i), "protocol": "openai", "baseUrl": "https://models.example/v1", "apiKey": "k",
			"body": object{"metadata": object{"x": strings.Repeat("&", 10_000)}}})
	}
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	rejected := []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	read := []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	requests := []struct {
		path, body, kind string
		statuses         []int
	}{
		{agents, `{"name":"b","providerId":"demo","model":"m","allowedTools":` + list("1", 261_000) + `}`, kindJSON, rejected},
		{agents, `{"name":"b","providerId":"demo","model":"m","tools":` + list(`""`, 19_000) + `}`, kindJSON, rejected},
		{"PUT " + agents + "/a1/knowledge", `{"items":` + list("{}", 250_000) + `}`, kindJSON, rejected},
		{agents + "?page_size=100", "", "", read}, {"HEAD " + agents + "?page_size=100", "", "", read}, {providers + "?page_size=100", "", "", read},
		{"/api/v1/agents/manifest", "", "", read},
		{agents + "/import", "agents: [{id: c, model: m, provider: {protocol: openai, baseUrl: https://models.example/v1, authStyle: none}}]", "application/yaml", rejected},
	}
	return attack{server: h.server, pause: 100 * time.Millisecond, parallel: 16, peak: 384 * mib, other: h.signIn(),
		step: func(ctx context.Context, n int) error {
			r := requests[n%len(requests)]
			_, _, err := h.do(ctx, nil, r.path, "maintainer", r.body, r.kind, r.statuses...)
			return err
		}}
}
