package hub_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// The answer of a user whose access ends is cancelled in the hub that relays it, by a change of
// that hub or of another one.
func TestAccessEndsForStreams(t *testing.T) {
	t.Parallel()
	url := postgres(t)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half an answer"), modeltest.Hang())))
	driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
		req.Config.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k"}
		return runtimeWithFile(t, req)
	}}
	t.Cleanup(driver.Close)
	keys := []string{secret.Generate()}
	same := func(cfg *hub.Config) { cfg.Deployer, cfg.EncryptionKeys = driver, keys }
	s := open(t, url, same)
	admin := s.setUp()
	other := open(t, url, same)
	s.call("POST", agents, admin, `{"name":"same","providerId":"demo","model":"demo"}`).want(201)
	s.call("POST", agents+"/same/deploy", admin, "").want(202)
	require.Eventually(t, func() bool {
		return s.call("GET", agents+"/same/deploy", admin, "").want(200)["state"] == "running"
	}, time.Minute, 20*time.Millisecond)
	const chats = "/api/v1/agents/same/chat/sessions"
	answers := 0
	for _, end := range []struct{ name, method, path, body string }{
		{"disabled", "PATCH", "", `{"status":"disabled"}`}, {"signedout", "DELETE", "/sessions", ""}, {"deleted", "DELETE", "", ""},
	} {
		for name, relay := range map[string]*server{"own": s, "other": other} {
			user := name + "-" + end.name
			token := s.join(admin, "member", user)
			me := users + "/" + s.call("GET", "/auth/userinfo", token, "").want(200)["id"].(string)
			chat := relay.call("POST", chats, token, "").want(201)["id"].(string)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, relay.url+chats+"/"+chat+"/messages", strings.NewReader(`{"message":"hello"}`))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			res, err := relay.client.Do(req)
			require.NoError(t, err)
			answers++
			called := up.Await(t, answers)
			require.Contains(t, []int{200, 204}, s.call(end.method, me+end.path, admin, end.body).status)
			began := time.Now()
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			t.Logf("%s: the stream ended after %v", user, time.Since(began))
			require.Contains(t, string(text), `event: cancelled`, user)
			require.Contains(t, string(text), `"reason":"client_request"`, user)
			require.Contains(t, string(text), "event: done", user)
			<-called.Closed()
			list := s.call("GET", allChats+"/"+chat+"/messages", admin, "").want(200)["items"].([]any)
			require.Equal(t, "cancelled", list[len(list)-1].(map[string]any)["status"], user)
			cancel()
		}
	}
}

// An answer that continues ends with the access of its user, and so do the streams of its readers,
// whose client may be gone. The stream of another reader ends with the role of that one.
func TestAccessEndsForAnswersThatContinue(t *testing.T) {
	t.Parallel()
	url := postgres(t)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half an answer"), modeltest.Hang())))
	driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
		req.Config.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k"}
		return runtimeWithFile(t, req)
	}}
	t.Cleanup(driver.Close)
	keys := []string{secret.Generate()}
	same := func(cfg *hub.Config) { cfg.Deployer, cfg.EncryptionKeys = driver, keys }
	s := open(t, url, same)
	admin := s.setUp()
	other := open(t, url, same)
	s.call("POST", agents, admin, `{"name":"same","providerId":"demo","model":"demo"}`).want(201)
	s.call("POST", agents+"/same/deploy", admin, "").want(202)
	require.Eventually(t, func() bool {
		return s.call("GET", agents+"/same/deploy", admin, "").want(200)["state"] == "running"
	}, time.Minute, 20*time.Millisecond)
	const chats = "/api/v1/agents/same/chat/sessions"
	for i, end := range []struct{ name, method, path, body string }{
		{"disabled", "PATCH", "", `{"status":"disabled"}`}, {"signedout", "DELETE", "/sessions", ""}, {"deleted", "DELETE", "", ""},
	} {
		token := s.join(admin, "member", end.name)
		me := users + "/" + s.call("GET", "/auth/userinfo", token, "").want(200)["id"].(string)
		chat := chats + "/" + s.call("POST", chats, token, "").want(201)["id"].(string)
		answer := s.call("POST", chat+"/messages", token, `{"message":"hello","background":true}`).want(202)["assistantMessageId"].(string)
		called := up.Await(t, i+1)
		var bodies []io.ReadCloser
		for _, at := range []*server{s, other} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.url+chat+"/messages/"+answer+"/events", nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			res, err := at.client.Do(req)
			require.NoError(t, err)
			require.Equal(t, 200, res.StatusCode)
			bodies = append(bodies, res.Body)
		}
		maintainer := s.join(admin, "maintainer", "boss-of-"+end.name)
		boss := users + "/" + s.call("GET", "/auth/userinfo", maintainer, "").want(200)["id"].(string)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+strings.Replace(chat, chats, allChats, 1)+"/messages/"+answer+"/events", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+maintainer)
		res, err := s.client.Do(req)
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		other.call("PATCH", boss, admin, `{"role":"member"}`).want(200)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Contains(t, string(text), `"errorType":"forbidden"`)
		require.Contains(t, string(text), "event: done")
		require.NotContains(t, string(text), "cancelled", "the answer continues")

		require.Contains(t, []int{200, 204}, other.call(end.method, me+end.path, admin, end.body).status)
		for _, body := range bodies {
			text, err := io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			require.Contains(t, string(text), "your access has ended", end.name)
			require.Contains(t, string(text), "event: done", end.name)
		}
		<-called.Closed()
		require.Eventually(t, func() bool {
			list := s.call("GET", strings.Replace(chat, chats, allChats, 1)+"/messages", admin, "").want(200)["items"].([]any)
			return list[len(list)-1].(map[string]any)["status"] == "cancelled"
		}, time.Minute, 20*time.Millisecond)
	}
}

// What ends the access of a user may also stop the runtime. The answer is cancelled, although the
// connection to the runtime ends before the hub checks the requests in progress.
func TestAccessEndsWithTheRuntime(t *testing.T) {
	t.Parallel()
	url := postgres(t)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half an answer"), modeltest.Hang())))
	driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
		req.Config.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k"}
		return runtimeWithFile(t, req)
	}}
	t.Cleanup(driver.Close)
	s := open(t, url, func(cfg *hub.Config) { cfg.Deployer = driver })
	admin := s.setUp()
	s.call("POST", agents, admin, `{"name":"same","providerId":"demo","model":"demo"}`).want(201)
	s.call("POST", agents+"/same/deploy", admin, "").want(202)
	restarts := 0.0
	running := func() bool {
		d := s.call("GET", agents+"/same/deploy", admin, "").want(200)
		return d["state"] == "running" && d["restartCount"] == restarts
	}
	const chats = "/api/v1/agents/same/chat/sessions"
	database := dbtest.Open(t, url)
	for i, user := range []string{"ada", "bob"} {
		require.Eventually(t, running, time.Minute, 20*time.Millisecond)
		token := s.join(admin, "member", user)
		chat := s.call("POST", chats, token, "").want(201)["id"].(string)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chats+"/"+chat+"/messages", strings.NewReader(`{"message":"hello"}`))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := s.client.Do(req)
		require.NoError(t, err)
		up.Await(t, i+1)
		disabled := user == "ada"
		if disabled { // as another hub does
			_, err = database.Write().ExecContext(t.Context(), `UPDATE members SET status = 'disabled' WHERE username = 'ada'`)
			require.NoError(t, err)
		}
		driver.Kill("default-same")
		restarts++
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, disabled, strings.Contains(string(text), "event: cancelled"), string(text))
		require.Equal(t, !disabled, strings.Contains(string(text), "upstream_failed"), string(text))
	}
}

// held is a request whose body waits.
type held struct {
	body *io.PipeWriter
	done chan response
}

// hold sends the header of a request, and returns when the hub has begun to read its body.
func (s *server) hold(method, path, token, kind, begin string) held {
	s.t.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, r) // a chunked body
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", kind)
	h := held{w, make(chan response, 1)}
	go func() {
		res, err := s.client.Do(req)
		if err != nil {
			h.done <- response{t: s.t, text: err.Error()}
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		h.done <- response{t: s.t, status: res.StatusCode, header: res.Header, text: string(text)}
	}()
	_, err = io.WriteString(w, begin)
	require.NoError(s.t, err)
	return h
}

// The body of a request comes after its caller was disabled, signed out, deleted or demoted.
func TestABodyThatComesLater(t *testing.T) {
	s, admin := started(t)
	const provider = `{"name":"late","protocol":"openai","baseUrl":"https://models.example.com","apiKey":"k"}`
	upload := form("late.ts", "export default {name: 'late', description: 'd', call() {}}")
	for _, end := range []struct{ name, method, path, body string }{
		{"disabled", "PATCH", "", `{"status":"disabled"}`}, {"signedout", "DELETE", "/sessions", ""}, {"demoted", "PATCH", "", `{"role":"member"}`},
		{"reset", "POST", "/reset-password", ""}, {"deleted", "DELETE", "", ""},
	} {
		token := s.join(admin, "maintainer", end.name)
		me := users + "/" + s.call("GET", "/auth/userinfo", token, "").want(200)["id"].(string)
		var all []held
		for _, w := range []struct{ path, kind, body string }{{providers, "application/json", provider}, {tools, formType, upload}} {
			all = append(all, s.hold("POST", w.path, token, w.kind, w.body[:10]))
		}
		require.Eventually(t, func() bool { return s.call("GET", "/auth/userinfo", token, "").status == 200 }, time.Minute, 20*time.Millisecond)
		require.Contains(t, []int{200, 204}, s.call(end.method, me+end.path, admin, end.body).status)
		for i, one := range all {
			_, _ = io.WriteString(one.body, []string{provider, upload}[i][10:])
			_ = one.body.Close()
			res := <-one.done
			require.Contains(t, []int{0, 401, 403}, res.status, "%s: %s", end.name, res.text)
		}
		for _, list := range []string{providers, tools} {
			require.NotContains(t, s.call("GET", list, admin, "").text, "late", end.name)
		}
	}
}
