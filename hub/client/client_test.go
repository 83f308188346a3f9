package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

func TestNewRejectsAddresses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "hub", "ftp://hub", "http://", "http://hub?x=1", "http://hub#x", "http://ada:x@hub", "http://[::1"} {
		_, err := client.New(client.Config{BaseURL: url})
		require.Error(t, err, url)
	}
}

// A list has all items of all its pages, in the order of the hub.
func TestListReadsAllPages(t *testing.T) {
	c, _ := started(t)
	const n = 203
	for i := range n {
		_, err := c.Knowledge.Create(t.Context(), wire.KnowledgeRequest{Name: fmt.Sprintf("set-%03d", i), DatasetID: "d"})
		require.NoError(t, err)
	}
	seen := map[string]bool{}
	for set, err := range c.Knowledge.List(t.Context(), "") {
		require.NoError(t, err)
		seen[set.Name] = true
	}
	require.Len(t, seen, n)
	for set, err := range c.Knowledge.List(t.Context(), "set-20") {
		require.NoError(t, err)
		require.Contains(t, set.Name, "set-20")
	}
	entries := 0
	for entry, err := range c.Audit.List(t.Context(), client.AuditFilter{Action: "agent.create_knowledge"}) {
		require.NoError(t, err)
		require.Equal(t, "ada", entry.UserName)
		if entries++; entries == 1 { // an entry that is not part of the snapshot
			require.NoError(t, c.Knowledge.Delete(t.Context(), "set-000"))
		}
	}
	require.Equal(t, n, entries)
}

func TestErrorsHaveTheCodeOfTheHub(t *testing.T) {
	c, url := started(t)
	_, err := c.Agents.Create(t.Context(), wire.AgentRequest{Name: "Not a name", ProviderID: "nothing"})
	require.ErrorIs(t, err, wire.ValidationFailed)
	fault, ok := errors.AsType[*wire.Error](err)
	require.True(t, ok)
	require.Equal(t, http.StatusBadRequest, fault.Status)
	require.Contains(t, fault.Data.Fields, "name")
	require.NotEmpty(t, fault.RequestID)
	require.Contains(t, err.Error(), "validation_failed: ")

	agent, err := c.Agents.Create(t.Context(), wire.AgentRequest{Name: "helper", ProviderID: "demo", Model: "demo"})
	require.NoError(t, err)
	update := wire.AgentRequest{Name: "helper", ProviderID: "demo", Model: "demo", Title: "Helper"}
	changed, err := c.Agents.Update(t.Context(), "helper", agent.Version, update)
	require.NoError(t, err)
	require.Equal(t, "Helper", changed.Title)
	_, err = c.Agents.Update(t.Context(), "helper", agent.Version, update)
	require.ErrorIs(t, err, wire.PreconditionFailed)

	for _, name := range []string{"", ".", "..", "a/b"} {
		_, err = c.Agents.Get(t.Context(), name)
		require.Error(t, err, name)
	}
	_, err = open(t, client.Config{BaseURL: url, Token: "cli_no"}).Auth.UserInfo(t.Context())
	require.ErrorIs(t, err, wire.Unauthenticated)
}

func TestAuditExportAndVerify(t *testing.T) {
	c, _ := started(t)
	check, err := c.Audit.Verify(t.Context(), "")
	require.NoError(t, err)
	require.True(t, check.OK)
	export, err := c.Audit.Export(t.Context(), client.AuditFilter{}, "ndjson", "")
	require.NoError(t, err)
	text, err := io.ReadAll(export)
	require.NoError(t, errors.Join(err, export.Close()))
	require.Contains(t, string(text), `"action":"auth.setup"`)
}

// Expired credentials are renewed once for concurrent requests, and the former ones are replaced.
func TestCredentialsAreRenewed(t *testing.T) {
	c, url := started(t)
	old := c.Credentials()
	old.ExpiresAt = time.Now()
	var renewals atomic.Int32
	second := open(t, client.Config{
		BaseURL: url, Credentials: old,
		Renew: func(ctx context.Context, old client.Credentials, refresh func(context.Context, client.Credentials) (client.Credentials, error)) (client.Credentials, error) {
			renewals.Add(1)
			return refresh(ctx, old)
		},
	})
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			_, err := second.Auth.UserInfo(t.Context())
			require.NoError(t, err)
		})
	}
	calls.Wait()
	require.EqualValues(t, 1, renewals.Load())
	require.NotEqual(t, old.RefreshToken, second.Credentials().RefreshToken)
	require.NoError(t, second.Auth.Logout(t.Context()))
	require.Equal(t, client.Credentials{DeviceToken: second.Credentials().DeviceToken}, second.Credentials())
	_, err := second.Auth.UserInfo(t.Context())
	require.ErrorIs(t, err, wire.Unauthenticated)
}

// A call whose context ends does not wait for the renewal of another one.
func TestARenewalIsNotWaitedForLongerThanTheContext(t *testing.T) {
	t.Parallel()
	renewing, finish := make(chan struct{}), make(chan struct{})
	c := open(t, client.Config{
		BaseURL: base, Credentials: client.Credentials{AccessToken: "old", RefreshToken: "r", ExpiresAt: time.Now()},
		Renew: func(context.Context, client.Credentials, func(context.Context, client.Credentials) (client.Credentials, error)) (client.Credentials, error) {
			close(renewing)
			<-finish
			return client.Credentials{}, wire.TokenRevoked
		},
	})
	first := make(chan error, 1)
	go func() { first <- c.Auth.EndSession(t.Context(), uuid) }()
	<-renewing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Auth.EndSession(ctx, uuid), context.Canceled)
	close(finish)
	require.ErrorIs(t, <-first, wire.TokenRevoked)
}

// A token that the hub no longer accepts is renewed although the clock of the client is late.
func TestExpiredTokenIsRenewed(t *testing.T) {
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/auth/refresh":
			require.Empty(t, r.Header.Get("Authorization"))
			_, _ = io.WriteString(w, `{"access_token":"new","refresh_token":"r2","expires_in":900}`)
		case r.Header.Get("Authorization") == "Bearer new":
			body, _ := io.ReadAll(r.Body)
			require.JSONEq(t, `{"title":"t"}`, string(body), "the body is sent again")
			_, _ = io.WriteString(w, `{"id":"s"}`)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"code":"token_expired","message":"Expired."}`)
		}
	})
	c := open(t, client.Config{BaseURL: url, Credentials: client.Credentials{AccessToken: "old", RefreshToken: "r1", ExpiresAt: time.Now().Add(time.Hour)}})
	session, err := c.Chats.Create(t.Context(), "helper", "t")
	require.NoError(t, err)
	require.Equal(t, "s", session.ID)
	require.Equal(t, "r2", c.Credentials().RefreshToken)
}

func TestOnlyReadsAreRepeated(t *testing.T) {
	var calls atomic.Int32
	url := stub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if calls.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"name":"helper"}`)
	})
	c := open(t, client.Config{BaseURL: url})
	agent, err := c.Agents.Get(t.Context(), "helper")
	require.NoError(t, err)
	require.Equal(t, "helper", agent.Name)
	require.EqualValues(t, 3, calls.Load())
	_, err = c.Agents.Create(t.Context(), wire.AgentRequest{Name: "helper"})
	require.Error(t, err)
	require.EqualValues(t, 4, calls.Load())
}

// The responses of a server that is not a hub, or is a hostile one, are errors.
func TestUnexpectedResponses(t *testing.T) {
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		media, body := "application/json", ""
		switch name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; name {
		case "page":
			media, body = "text/html", "<html>"
		case "broken":
			body = `{"name":`
		case "values":
			body = `{"tools":[` + strings.Repeat(`"",`, 1<<20) + `""]}`
		case "redirect":
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
	})
	c := open(t, client.Config{BaseURL: url, Token: "secret"})
	for name, want := range map[string]string{
		"page": "text/html", "broken": "unexpected end", "values": "too many values", "redirect": "302 Found",
	} {
		_, err := c.Agents.Get(t.Context(), name)
		require.ErrorContains(t, err, want, name)
	}
}

func TestAnswersThatFail(t *testing.T) {
	const begin = "event: hub\ndata: {\"type\":\"hub\",\"sessionId\":\"s\"}\n\n"
	answers := map[string]string{
		"cut":       begin,
		"unknown":   begin + "event: later\ndata: {}\n\nevent: hub\ndata: {\"type\":\"hub.later\"}\n\nevent: done\ndata: {}\n\nevent: after\ndata: {}\n\n",
		"malformed": begin + "event: hub\ndata: {\n\n",
		"large":     begin + "event: x\ndata: " + strings.Repeat("a", 5<<20) + "\n\n",
	}
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, answers[strings.Split(r.URL.Path, "/")[4]])
	})
	c := open(t, client.Config{BaseURL: url})
	send := func(agent string) (events []runtimewire.Payload, err error) {
		for event, err := range c.Chats.Send(t.Context(), agent, "s", wire.ChatMessageRequest{Message: "m"}) {
			if err != nil {
				return events, err
			}
			events = append(events, event)
		}
		return events, nil
	}
	events, err := send("cut")
	require.ErrorIs(t, err, client.ErrIncomplete)
	require.Len(t, events, 1)
	events, err = send("unknown")
	require.NoError(t, err)
	require.Len(t, events, 4)
	require.IsType(t, &runtimewire.Done{}, events[3])
	for _, agent := range []string{"malformed", "large"} {
		_, err = send(agent)
		require.ErrorContains(t, err, "read events of answer", agent)
	}
}

// A download continues at an offset.
func TestDownloads(t *testing.T) {
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("0123456789"))
	})
	c := open(t, client.Config{BaseURL: url})
	file, err := c.Deployments.Open(t.Context(), "helper", "a.txt", 4)
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, errors.Join(err, file.Close()))
	require.Equal(t, "456789", string(text))
	require.Equal(t, []int64{4, 10}, []int64{file.Offset, file.Size})
	_, err = c.Deployments.Open(t.Context(), "helper", "a.txt", 11)
	fault, ok := errors.AsType[*wire.Error](err)
	require.True(t, ok, err)
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, fault.Status)
	file, err = c.Artifact(t.Context(), url+"/artifacts/skills/x", 0)
	require.NoError(t, err)
	require.EqualValues(t, 10, file.Size)
	require.NoError(t, file.Close())
	_, err = c.Artifact(t.Context(), "file:///etc/passwd", 0)
	require.Error(t, err)
}

func TestUploads(t *testing.T) {
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		require.Positive(t, r.ContentLength)
		file, head, err := r.FormFile("file")
		require.NoError(t, err)
		text, err := io.ReadAll(file)
		require.NoError(t, err)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"name":%q,"title":%q,"hash":%q}`, text, r.FormValue("title"), head.Filename)
	})
	tool, err := open(t, client.Config{BaseURL: url}).Tools.Create(t.Context(), client.Upload{
		FileName: `a "b".ts`, Content: strings.NewReader("content"), Title: "Title",
	})
	require.NoError(t, err)
	require.Equal(t, []string{"content", "Title", `a "b".ts`}, []string{tool.Name, tool.Title, tool.Hash})
}

// reported is a file whose first read is reported, and waits.
type reported struct {
	io.ReadSeeker
	once  sync.Once
	begun chan<- struct{}
	until <-chan struct{}
}

func (r *reported) Read(p []byte) (int, error) {
	r.once.Do(func() {
		close(r.begun)
		<-r.until
	})
	return r.ReadSeeker.Read(p)
}

// The hub rejects an upload while its file is read. The connection reads the file no more when the
// upload is repeated.
func TestAnUploadIsRepeated(t *testing.T) {
	begun, renewed := make(chan struct{}), make(chan struct{})
	content := bytes.Repeat([]byte("0123456789abcde\n"), 1<<19)
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/auth/refresh":
			close(renewed)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"new","refresh_token":"r2","expires_in":900}`)
		case r.Header.Get("Authorization") == "Bearer new":
			file, _, err := r.FormFile("file")
			require.NoError(t, err)
			got, err := io.ReadAll(file)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got), "the file was sent from its start")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"name":"tool"}`)
		default:
			<-begun
			conn, buffered, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
			defer conn.Close()
			const body = `{"code":"token_expired","message":"Expired."}`
			_, err = fmt.Fprintf(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, buffered) // until the client closes the connection
		}
	})
	c := open(t, client.Config{BaseURL: url, Credentials: client.Credentials{AccessToken: "old", RefreshToken: "r1", ExpiresAt: time.Now().Add(time.Hour)}})
	tool, err := c.Tools.Create(t.Context(), client.Upload{FileName: "tool.ts", Content: &reported{ReadSeeker: bytes.NewReader(content), begun: begun, until: renewed}})
	require.NoError(t, err)
	require.Equal(t, "tool", tool.Name)
}

// Expired credentials do not fail the requests that need none.
func TestHealthNeedsNoCredentials(t *testing.T) {
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		require.True(t, strings.HasPrefix(r.URL.Path, "/health"), r.URL.Path)
		require.Empty(t, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	})
	c := open(t, client.Config{BaseURL: url, Credentials: client.Credentials{AccessToken: "old", RefreshToken: "r1", ExpiresAt: time.Now().Add(-time.Hour)}})
	health, err := c.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ok", health.Status)
	require.NoError(t, c.Ready(t.Context()))
}
