package main_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// farm is a machine with hubs on one database.
type farm struct {
	t        testing.TB
	path     string // of the executable
	database string
	env      []string
	admin    string // an access token
}

const deployPath = "/api/v1/admin/agents/helper/deploy"

// eachFarm runs a test on both engines.
func eachFarm(t *testing.T, test func(f *farm)) {
	dbtest.Each(t, func(t *testing.T, url string) { onFarm(t, url, test) })
}

// onFarm runs a test on a database. At its end, no process of a runtime is left.
func onFarm(t *testing.T, url string, test func(f *farm)) {
	path, data := binary(t), t.TempDir()
	f := &farm{t: t, path: path, database: url, env: []string{
		"DATABASE_URL", url, "HUB_DATA_DIR", data, "PROVIDER_ENCRYPTION_KEY", secret.Generate(), "PATH", os.Getenv("PATH"),
		"HUB_CONFIG", file(t, "deployer: {leaseTime: 700ms}"),
	}}
	test(f)
	left, err := filepath.Glob(filepath.Join(data, "deployments", "[a-z]*"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, runtimes(path))
}

// runtimes returns the processes of runtimes that an executable runs.
func runtimes(path string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		args, err := os.ReadFile(file)
		if err == nil && bytes.HasPrefix(args, []byte(path+"\x00"+agentvalue.DeployedArg+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// hub starts a hub. The first one is set up, with an agent.
func (f *farm) hub() *daemontest.Process {
	f.t.Helper()
	p := spawn(f.t, f.path, f.env)
	if f.admin == "" {
		f.setUp(p)
	}
	return p
}

func (f *farm) setUp(p *daemontest.Process) {
	f.t.Helper()
	f.admin = setUp(f.t, p.Instance)
	_, err := dbtest.Open(f.t, f.database).Write().ExecContext(f.t.Context(), `INSERT INTO agents (id, tenant_id, name, title, title_en, description, description_en,
				icon, search, enabled, is_default, provider_id, model, system_prompt, max_turns, permission_mode, disallowed_tools, subagents,
				setting_sources, version, created_at, updated_at)
			VALUES ('helper', 'default', 'helper', '', '', '', '', '', '', TRUE, FALSE, 'demo', 'demo', '', 10, 'default', '[]', '{}', '[]', 1, 1, 1)`)
	require.NoError(f.t, err)
}

func (f *farm) do(p *daemontest.Process, method, path string, status int) map[string]any {
	f.t.Helper()
	res := call(f.t, method, p.URL+deployPath+path, f.admin, "")
	require.Equal(f.t, status, res.status, res.text)
	return res.body
}

// freeze suspends a hub at a moment at which it writes nothing: otherwise, the others cannot write
// to SQLite.
func (f *farm) freeze(p *daemontest.Process) {
	f.t.Helper()
	tx, err := dbtest.Open(f.t, f.database).Write().BeginTx(f.t.Context(), nil)
	require.NoError(f.t, err)
	p.Signal(f.t, syscall.SIGSTOP)
	require.NoError(f.t, tx.Rollback())
}

// reach waits for a state, as a hub shows it.
func (f *farm) reach(p *daemontest.Process, state string) (s map[string]any) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		s = f.do(p, http.MethodGet, "", http.StatusOK)
		return s["state"] == state
	}, daemontest.Patience, 20*time.Millisecond, "%s: %v", state, &s)
	return s
}

// run runs the agent once, and once with the protocol of OpenAI.
func (f *farm) run(s map[string]any) {
	f.t.Helper()
	c, err := client.New(client.Config{BaseURL: s["runtimeUrl"].(string), APIKey: s["apiKey"].(string), HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(f.t, err)
	answer, err := c.Complete(f.t.Context(), "helper", wire.RunRequest{Message: "hello"})
	require.NoError(f.t, err)
	require.Contains(f.t, answer.Text, "hello")
	res := call(f.t, http.MethodPost, s["runtimeUrl"].(string)+"/openai/v1/chat/completions", s["apiKey"].(string), `{"model":"helper","messages":[{"role":"user","content":"hello"}]}`)
	require.Equal(f.t, http.StatusOK, res.status, res.text)
	require.Contains(f.t, res.text, "hello")
}

func kill(t *testing.T, p *daemontest.Process) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	p.Wait(t)
}

func TestDeploymentsSurviveTheHub(t *testing.T) {
	t.Parallel()
	eachFarm(t, func(f *farm) {
		p := f.hub()
		f.do(p, http.MethodPost, "", http.StatusAccepted)
		kill(t, p) // while it starts
		p = f.hub()
		running := f.reach(p, "running")
		f.run(running)
		kill(t, p) // while it runs
		p = f.hub()
		require.Equal(t, running["startedAt"], f.reach(p, "running")["startedAt"], "it was adopted")
		require.Len(t, runtimes(f.path), 1)

		require.NoError(t, syscall.Kill(runtimes(f.path)[0], syscall.SIGKILL))
		require.Eventually(t, func() bool {
			s := f.do(p, http.MethodGet, "", http.StatusOK)
			return s["state"] == "running" && s["restartCount"] == 1.0
		}, daemontest.Patience, 20*time.Millisecond)

		_, err := dbtest.Open(t, f.database).Write().ExecContext(t.Context(), `UPDATE agents SET system_prompt = 'changed'`)
		require.NoError(t, err)
		require.Equal(t, true, f.do(p, http.MethodGet, "", http.StatusOK)["configDrift"])
		f.do(p, http.MethodPost, "", http.StatusAccepted)
		kill(t, p) // while it is replaced
		p = f.hub()
		changed := f.reach(p, "running")
		require.Equal(t, false, changed["configDrift"])
		f.run(changed)

		f.do(p, http.MethodPost, "/stop", http.StatusAccepted)
		kill(t, p) // while it stops
		p = f.hub()
		f.reach(p, "stopped")
		require.Empty(t, runtimes(f.path))
		f.do(p, http.MethodPost, "/start", http.StatusAccepted)
		f.run(f.reach(p, "running"))
		f.do(p, http.MethodDelete, "", http.StatusNoContent)
		kill(t, p) // while it is deleted
		p = f.hub()
		f.reach(p, "not_deployed")
		p.Signal(t, syscall.SIGTERM)
		require.Zero(t, p.Exit(t))
	})
}

// A hub that is killed in any phase of a rollout leaves one revision that serves, and nothing
// twice. The statements are the same on both engines.
func TestRolloutSurvivesTheHub(t *testing.T) {
	t.Parallel()
	onFarm(t, dbtest.SQLite(t), func(f *farm) {
		p := f.hub()
		f.do(p, http.MethodPost, "", http.StatusAccepted)
		first := f.reach(p, "running")
		serves := func(revision float64) (s map[string]any) {
			t.Helper()
			require.Eventually(t, func() bool {
				s = f.do(p, http.MethodGet, "", http.StatusOK)
				require.NotNil(t, s["servingRevision"])
				return s["servingRevision"] == revision
			}, daemontest.Patience, 20*time.Millisecond, "%v", &s)
			return s
		}
		change := func(allowed string) {
			t.Helper()
			_, err := dbtest.Open(t, f.database).Write().ExecContext(t.Context(), `UPDATE agents SET allowed_tools = $1, version = version + 1`, allowed)
			require.NoError(t, err)
			f.do(p, http.MethodPost, "", http.StatusAccepted)
		}
		for i, phase := range []func(revision float64){
			func(float64) {}, // the request is stored
			func(float64) { // the runtime starts
				require.Eventually(t, func() bool { return len(runtimes(f.path)) > 1 }, daemontest.Patience, 10*time.Millisecond)
			},
			func(revision float64) { serves(revision) }, // the former revision ends
		} {
			revision := float64(i + 2)
			change(`["Read` + strconv.Itoa(i) + `"]`)
			phase(revision)
			kill(t, p)
			p = f.hub()
			s := serves(revision)
			require.NotEqual(t, first["startedAt"], s["startedAt"])
			f.run(s)
			require.Eventually(t, func() bool { return len(runtimes(f.path)) == 1 }, daemontest.Patience, 20*time.Millisecond)
		}
		last := f.do(p, http.MethodGet, "", http.StatusOK)
		change(`["Bash(git *"]`) // the agent is unavailable
		failed := func() bool {
			for _, c := range f.do(p, http.MethodGet, "", http.StatusOK)["conditions"].([]any) {
				if c := c.(map[string]any); c["type"] == "Progressing" && c["status"] == false {
					require.Contains(t, c["message"], "agent is unavailable: allowedTools[0]")
					return true
				}
			}
			return false
		}
		require.Eventually(t, failed, daemontest.Patience, 20*time.Millisecond)
		kill(t, p)
		p = f.hub()
		s := f.reach(p, "running")
		require.True(t, failed())
		require.Equal(t, []any{4.0, 5.0, last["startedAt"]}, []any{s["servingRevision"], s["revision"], s["startedAt"]})
		f.run(s)
		require.Len(t, runtimes(f.path), 1)
		f.do(p, http.MethodPost, "/rollback", http.StatusAccepted)
		kill(t, p)
		p = f.hub()
		f.run(serves(6))
		f.do(p, http.MethodDelete, "", http.StatusNoContent)
		f.reach(p, "not_deployed")
	})
}

// The second hub takes over from a frozen one, which changes nothing when it continues.
func TestFrozenHubLosesItsDeployments(t *testing.T) {
	t.Parallel()
	eachFarm(t, func(f *farm) {
		first := f.hub()
		second := f.hub()
		f.do(first, http.MethodPost, "", http.StatusAccepted)
		started := f.reach(second, "running")["startedAt"]
		f.freeze(first)
		f.do(second, http.MethodPost, "/stop", http.StatusAccepted)
		f.reach(second, "stopped")
		f.do(second, http.MethodPost, "/start", http.StatusAccepted)
		again := f.reach(second, "running")
		require.NotEqual(t, started, again["startedAt"])
		first.Signal(t, syscall.SIGCONT)
		require.Equal(t, again["startedAt"], f.reach(first, "running")["startedAt"])
		f.run(again)
		require.Len(t, runtimes(f.path), 1)
		f.do(first, http.MethodDelete, "", http.StatusNoContent)
		f.reach(first, "not_deployed")
	})
}

// The log has the time until a deployed agent is ready, and that of a runtime that is started by
// hand.
func TestDeployToReady(t *testing.T) {
	t.Parallel()
	onFarm(t, dbtest.SQLite(t), func(f *farm) {
		p := f.hub()
		began := time.Now()
		f.do(p, http.MethodPost, "", http.StatusAccepted)
		s := f.reach(p, "running")
		deployed := time.Since(began)
		began = time.Now()
		hand := daemontest.Spawn(t, f.path, t.TempDir(), nil, "runtime", "--addr", "127.0.0.1:0")
		hand.Started(t)
		t.Logf("deploy to ready: %v, a runtime by hand: %v", deployed, time.Since(began))
		kill(t, hand)
		require.NotContains(t, p.Log.String(), s["apiKey"])
		elsewhere := slices.Clone(f.env)
		elsewhere[3] = t.TempDir()
		_, err := once(t, elsewhere, "--addr", "127.0.0.1:0")
		require.ErrorContains(t, err, "another machine or data directory has process deployments")
		f.do(p, http.MethodDelete, "", http.StatusNoContent)
		f.reach(p, "not_deployed")
	})
}

// A revision whose own files cannot be used fails after two attempts, and says why.
func TestUnusableRevision(t *testing.T) {
	t.Parallel()
	p := openProduct(t)
	p.send(201, "POST", "/api/v1/admin/tools", upload("broken.ts", "export default { name: 'broken', description: 'd', inputSchema: {type: 'object'}, call() {} }\nthrow new Error('it is broken')\n"))
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo","tools":["broken"]}`)
	p.send(202, "POST", adminAgents+"/guide/deploy", "")
	failed := p.until("guide", func(s map[string]any) bool { return s["state"] == "failed" })
	require.Contains(t, failed["error"], "it is broken")
	require.NotContains(t, failed["error"], agentvalue.UnusableMessage)
	log := p.send(200, "GET", adminAgents+"/guide/deploy/logs", "").text
	require.Equal(t, 2, strings.Count(log, agentvalue.UnusableMessage), log)

	p.send(200, "PUT", adminAgents+"/guide", `{"providerId":"demo","model":"demo","tools":[]}`)
	p.deploy("guide")
	p.remove("guide")
}
