package main_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/sse"
)

const (
	adminAgents = "/api/v1/admin/agents"
	formType    = "multipart/form-data; boundary=x"
)

// product is a hub with its deployments on SQLite.
type product struct {
	t     *testing.T
	data  string
	env   []string
	path  string // of the executable
	token string
	seen  strings.Builder // all responses
	*daemontest.Process
}

// openProduct starts a hub and sets it up. At the end of the test no runtime is left.
func openProduct(t *testing.T, env ...string) *product {
	t.Helper()
	p := &product{t: t, data: t.TempDir(), path: binary(t)}
	p.env = append([]string{"HUB_DATA_DIR", p.data, "PATH", os.Getenv("PATH"), "PROVIDER_ENCRYPTION_KEY", secret.Generate()}, env...)
	t.Cleanup(func() { // after a failure too
		for _, pid := range runtimes(p.path) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	p.Process = spawn(t, p.path, p.env)
	p.token = setUp(t, p.Instance)
	return p
}

// send sends a request that must have that status. A body that begins with --x is a form.
func (p *product) send(status int, method, path, body string) response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.URL+path, strings.NewReader(body))
	require.NoError(p.t, err)
	req.Header.Set("Authorization", "Bearer "+p.token)
	switch {
	case strings.HasPrefix(body, "--x"):
		req.Header.Set("Content-Type", formType)
	case strings.HasSuffix(path, "/import"):
		req.Header.Set("Content-Type", "application/yaml")
	case body != "":
		req.Header.Set("Content-Type", "application/json")
	}
	a := do(p.t, req)
	require.Equal(p.t, status, a.status, "%s %s: %s", method, path, a.text)
	fmt.Fprintln(&p.seen, a.header, a.text)
	return a
}

// until waits until the deployment of an agent is as accepted, and returns it.
func (p *product) until(agent string, accept func(s map[string]any) bool) (s map[string]any) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		s = p.send(http.StatusOK, http.MethodGet, adminAgents+"/"+agent+"/deploy", "").body
		return accept(s)
	}, daemontest.Patience, 20*time.Millisecond, "%v", &s)
	return s
}

func (p *product) deploy(agent string) {
	p.t.Helper()
	p.send(http.StatusAccepted, http.MethodPost, adminAgents+"/"+agent+"/deploy", "")
	p.until(agent, func(s map[string]any) bool {
		return s["state"] == "running" && s["configDrift"] == false && s["servingRevision"] == s["revision"]
	})
}

// remove deletes a deployment, and waits until no runtime is left.
func (p *product) remove(agent string) {
	p.t.Helper()
	p.send(http.StatusNoContent, http.MethodDelete, adminAgents+"/"+agent+"/deploy", "")
	p.until(agent, func(s map[string]any) bool { return s["state"] == "not_deployed" })
	require.Empty(p.t, runtimes(p.path))
}

// session creates a chat and returns its path.
func (p *product) session(agent string) string {
	p.t.Helper()
	const path = "/api/v1/agents/%s/chat/sessions"
	return fmt.Sprintf(path+"/", agent) + p.send(http.StatusCreated, http.MethodPost, fmt.Sprintf(path, agent), "").string(p.t, "id")
}

// lastMessage returns the latest message of a chat.
func (p *product) lastMessage(session string) (all int, last map[string]any) {
	p.t.Helper()
	items := p.send(http.StatusOK, http.MethodGet, session+"/messages?page_size=100", "").body["items"].([]any)
	return len(items), items[len(items)-1].(map[string]any)
}

func upload(file, content string) string {
	return "--x\r\nContent-Disposition: form-data; name=file; filename=\"" + file + "\"\r\n\r\n" + content + "\r\n--x--\r\n"
}

func zipOf(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		require.NoError(t, err)
		_, err = io.WriteString(f, files[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String()
}

const forecast = `interface Input { city: string }
export default {
	name: "forecast",
	description: "Returns a forecast.",
	inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
	async call(input: Input): Promise<string> { return "sunny in " + input.city },
}
`

// A custom tool and a skill are uploaded, mounted, deployed and used. A new file is drift until the
// next deployment. A missing tool is not deployed, and a missing skill fails the deployment.
func TestToolAndSkillAreDeployed(t *testing.T) {
	t.Parallel()
	p := openProduct(t)
	p.send(201, "POST", "/api/v1/admin/tools", upload("forecast.ts", forecast))
	p.send(201, "POST", "/api/v1/admin/skills", upload("travel.zip", zipOf(t, "travel/SKILL.md", "---\nname: travel\ndescription: Plans journeys.\n---\nPack for "+"the weather.\n")))
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo","tools":["forecast","Skill"],"skills":["travel"],"permissionMode":"bypassPermissions"}`)
	p.deploy("guide")
	chat := p.session("guide")
	run := func(message, want string) {
		t.Helper()
		text := p.send(200, "POST", chat+"/messages", fmt.Sprintf(`{"message":%q}`, message)).text
		require.Contains(t, text, want)
		_, last := p.lastMessage(chat)
		require.Equal(t, "completed", last["status"])
		require.Contains(t, fmt.Sprint(last), want)
	}
	const ask = `/tool forecast {"city": "Paris"}`
	run(ask, "sunny in Paris")
	run(`/tool Skill {"skill": "travel"}`, "Pack for the weather.")

	p.send(200, "PUT", "/api/v1/admin/tools/forecast/file", upload("forecast.ts", strings.Replace(forecast, "sunny", "rainy", 1)))
	require.Equal(t, true, p.send(200, "GET", adminAgents+"/guide/deploy", "").body["configDrift"])
	run(ask, "sunny in Paris")
	p.deploy("guide")
	run(ask, "rainy in Paris")

	exported := p.send(200, "GET", adminAgents+"/guide/export", "").text
	p.send(201, "POST", adminAgents+"/import", strings.Replace(exported, "id: guide", "id: copy", 1))
	copied := p.send(200, "GET", adminAgents+"/copy", "").body
	require.Equal(t, []any{"Skill", "forecast"}, sorted(copied["tools"]))
	require.Contains(t, fmt.Sprint(copied["skills"]), "travel")

	for _, name := range []string{"tools/*/forecast.ts", "skills/*/travel.zip"} {
		files, err := filepath.Glob(filepath.Join(p.data, "*", name))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			require.NoError(t, os.Remove(file))
		}
	}
	require.Equal(t, "missing", p.send(200, "GET", "/api/v1/admin/tools/forecast", "").body["status"])
	p.send(202, "POST", adminAgents+"/copy/deploy", "")
	failed := p.until("copy", func(s map[string]any) bool { return s["error"] != nil })
	require.Contains(t, failed["error"], "travel")
	require.NotContains(t, failed["error"], "forecast")
	require.Contains(t, fmt.Sprint(failed["conditions"]), "travel")
	p.send(204, "DELETE", adminAgents+"/copy/deploy", "")
	p.until("copy", func(s map[string]any) bool { return s["state"] == "not_deployed" })
	p.remove("guide")
}

// A stdio server of a deployed agent starts in the directory that the hub has for it, relative to
// that of the agent, and without one in a private directory. It writes where its sandbox permits
// it.
func TestMCPServersStartInTheirDirectory(t *testing.T) {
	t.Parallel()
	p := openProduct(t)
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	p.deploy("guide")
	folders, err := filepath.Glob(filepath.Join(p.data, "deployments", "*", "home"))
	require.NoError(t, err)
	require.Len(t, folders, 1)
	out := folders[0] // commands of the agent do not see it
	for name, cwd := range map[string]string{"own": "", "work": ".", "below": "below", "denied": "."} {
		server := map[string]any{
			"name": name, "transport": "stdio", "command": "sh", "cwd": cwd,
			"args": []string{"-c", "mkdir -p below; pwd >" + filepath.Join(out, name) + "; echo done >ended-" + name},
		}
		if name != "denied" {
			server["sandbox"] = map[string]any{"write": []string{out}}
		}
		body, err := json.Marshal(server)
		require.NoError(t, err)
		p.send(201, "POST", "/api/v1/admin/mcps", string(body))
	}
	p.send(200, "PUT", adminAgents+"/guide/mcps", `{"items":["own","work","denied"]}`)
	p.deploy("guide")
	started := func(name string) string {
		t.Helper()
		p.send(200, "POST", p.session("guide")+"/messages", `{"message":"hello"}`)
		text, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	work := started("work")
	require.Equal(t, "work", filepath.Base(work))
	require.DirExists(t, filepath.Join(work, "below"))
	require.NotContains(t, started("own"), work)
	require.FileExists(t, filepath.Join(work, "ended-denied"))
	require.NoFileExists(t, filepath.Join(out, "denied"))

	p.send(200, "PUT", adminAgents+"/guide/mcps", `{"items":["below"]}`)
	p.deploy("guide")
	require.Equal(t, filepath.Join(work, "below"), started("below"))
	p.remove("guide")
}

func sorted(list any) []any {
	all := list.([]any)
	if len(all) == 2 && all[0].(string) > all[1].(string) {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// begin sends a long message and returns when the answer has begun.
func (p *product) begin(session string) (events *sse.Decoder, stop func()) {
	p.t.Helper()
	events, stop = p.ask(session, strings.Repeat("a long message ", 1500))
	for range 20 {
		_, err := events.Next()
		require.NoError(p.t, err)
	}
	return events, stop
}

// ask sends a message and returns the events of its answer.
func (p *product) ask(session, message string) (events *sse.Decoder, stop func()) {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"message": message})
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(p.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+session+"/messages", bytes.NewReader(body))
	require.NoError(p.t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + p.token}, "Content-Type": {"application/json"}}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, res.StatusCode)
	return sse.NewDecoder(res.Body), func() { cancel(); _ = res.Body.Close() }
}

func TestAnswersSurviveKills(t *testing.T) {
	t.Parallel()
	p := openProduct(t)
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	p.deploy("guide")
	chat := p.session("guide")

	// The runtime is killed.
	events, stop := p.begin(chat)
	require.Len(t, runtimes(p.path), 1)
	require.NoError(t, syscall.Kill(runtimes(p.path)[0], syscall.SIGKILL))
	for {
		if _, err := events.Next(); err != nil {
			break
		}
	}
	stop()
	n, last := p.lastMessage(chat)
	require.Equal(t, 2, n)
	require.Equal(t, "failed", last["status"])
	require.NotEmpty(t, last["text"])
	p.until("guide", func(s map[string]any) bool { return s["state"] == "running" && s["restartCount"] == 1.0 })

	// The hub is killed.
	_, stop = p.begin(chat)
	require.Eventually(t, func() bool {
		n, last := p.lastMessage(chat)
		return n == 4 && last["text"] != ""
	}, daemontest.Patience, 20*time.Millisecond, "a part of the answer is stored")
	kill(t, p.Process)
	stop()
	p.Process = spawn(t, p.path, p.env)
	_, last = p.lastMessage(chat)
	require.Equal(t, "partial", last["status"])
	require.NotEmpty(t, last["text"])
	p.until("guide", func(s map[string]any) bool { return s["state"] == "running" })
	require.Contains(t, p.send(200, "POST", chat+"/messages", `{"message":"again"}`).text, "hub.saved")
	n, last = p.lastMessage(chat)
	require.Equal(t, 6, n)
	require.Equal(t, "completed", last["status"])
	require.Len(t, runtimes(p.path), 1)
	p.remove("guide")
}

// An answer that outlasts the drain is cancelled, stored and ended. Its deployment continues to
// run.
func TestAnswersThatOutlastTheDrain(t *testing.T) {
	t.Parallel()
	p := openProduct(t, "HUB_DRAIN_TIMEOUT", "10ms")
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo","tools":["Bash"],"permissionMode":"bypassPermissions"}`)
	p.deploy("guide")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		chat := p.session("guide")
		events, stop := p.ask(chat, `/tool Bash {"command":"sleep 100"}`)
		for kind := ""; kind != "assistant"; { // it calls the tool
			ev, err := events.Next()
			require.NoError(t, err)
			kind = ev.Type
		}
		p.Signal(t, sig)
		var last []string
		for ev, err := range events.Events() {
			require.NoError(t, err)
			if ev.Type != "partial_message" {
				last = append(last, ev.Type+string(ev.Data))
			}
		}
		stop()
		require.Len(t, last, 3)
		require.Regexp(t, `^cancelled.*"reason":"shutdown"`, last[0])
		require.Regexp(t, `^hub.*"hub.saved".*"status":"cancelled"`, last[1])
		require.Equal(t, "done{}", last[2])
		require.Zero(t, p.Exit(t), "%s", p.Log)
		require.NotContains(t, p.Log.String(), "connections were cut")
		require.Len(t, runtimes(p.path), 1)

		p.Process = spawn(t, p.path, p.env)
		_, stored := p.lastMessage(chat)
		require.Equal(t, "cancelled", stored["status"])
		require.NotEmpty(t, stored["text"])
		p.until("guide", func(s map[string]any) bool { return s["state"] == "running" })
	}
	p.remove("guide")
}

// The key of a runtime is replaced during an answer, which continues.
func TestRotateKeyOfARunningAgent(t *testing.T) {
	t.Parallel()
	p := openProduct(t)
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	p.deploy("guide")
	first := p.send(200, "GET", adminAgents+"/guide/deploy", "").body
	direct := func(key any) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first["runtimeUrl"].(string)+"/v1/agents", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", key.(string))
		return do(t, req).status
	}
	chat := p.session("guide")
	events, stop := p.begin(chat)
	p.send(202, "POST", adminAgents+"/guide/deploy/rotate-key", "")
	second := p.until("guide", func(s map[string]any) bool { return s["apiKey"] != first["apiKey"] })
	require.Equal(t, 200, direct(second["apiKey"]))
	require.Eventually(t, func() bool { return direct(first["apiKey"]) == 401 }, daemontest.Patience, 20*time.Millisecond)
	for {
		if _, err := events.Next(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	stop()
	_, last := p.lastMessage(chat)
	require.Equal(t, "completed", last["status"])
	require.Contains(t, p.send(200, "POST", chat+"/messages", `{"message":"again"}`).text, "hub.saved")
	require.Equal(t, first["startedAt"], p.until("guide", func(map[string]any) bool { return true })["startedAt"])
	require.NotContains(t, p.Log.String(), second["apiKey"])
	p.remove("guide")
}
