package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// city is a hub of a user with deployed agents that may use Bash.
type city struct {
	t     *testing.T
	hub   *daemontest.Process
	data  string
	admin string
}

// found starts a hub of a user, which only root can choose.
func found(t *testing.T, user int, key string) *city {
	t.Helper()
	dir, err := os.MkdirTemp("", "agenthost-isolation-") // t.TempDir is below a directory of this user
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) // the hub may be of another user
	content, err := os.ReadFile(binary(t))
	require.NoError(t, err)
	path := filepath.Join(dir, "hub")
	require.NoError(t, os.WriteFile(path, content, 0o755)) // it is executed
	home := filepath.Join(dir, "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "secret"), []byte("of the home directory"), 0o644))
	app := filepath.Join(dir, "app")                                  // readable, because its programs are in PATH
	require.NoError(t, os.MkdirAll(filepath.Join(app, "bin"), 0o755)) // the hub may be of another user
	require.NoError(t, os.Symlink("../app/data", filepath.Join(app, "current")))
	c := &city{t: t, data: filepath.Join(app, "data")}
	env := []string{"HUB_DATA_DIR", c.data, "PROVIDER_ENCRYPTION_KEY", key, "PATH", filepath.Join(app, "bin") + ":/usr/local/bin:/usr/bin:/bin"}
	command := []string{path, "--addr", "127.0.0.1:0"}
	if user != os.Getuid() {
		require.NoError(t, os.Chown(home, user, user))
		require.NoError(t, os.Chown(app, user, user))
		id := strconv.Itoa(user)
		command = append([]string{"/usr/bin/setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups"}, command...)
	}
	c.hub = daemontest.Spawn(t, command[0], home, env, command[1:]...)
	c.hub.Started(t)
	c.admin = setUp(t, c.hub.Instance)
	return c
}

func (c *city) deploy(name, sandbox string) {
	c.t.Helper()
	agent := fmt.Sprintf(`{"name":%q,"providerId":"demo","model":"demo","tools":["Bash"],"permissionMode":"bypassPermissions","sandbox":%s}`, name, sandbox)
	res := call(c.t, http.MethodPost, c.hub.URL+"/api/v1/admin/agents", c.admin, agent)
	require.Equal(c.t, http.StatusCreated, res.status, res.text)
	res = call(c.t, http.MethodPost, c.path(name), c.admin, "")
	require.Equal(c.t, http.StatusAccepted, res.status, res.text)
	c.reach(name)
}

func (c *city) path(name string) string {
	return c.hub.URL + "/api/v1/admin/agents/" + name + "/deploy"
}

// reach waits until a deployment is running.
func (c *city) reach(name string) (s map[string]any) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		s = call(c.t, http.MethodGet, c.path(name), c.admin, "").body
		return s["state"] == "running"
	}, daemontest.Patience, 10*time.Millisecond, "%v", &s)
	return s
}

func (c *city) client(name string) *client.Client {
	c.t.Helper()
	s := c.reach(name)
	runtime, err := client.New(client.Config{BaseURL: s["runtimeUrl"].(string), APIKey: s["apiKey"].(string), HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(c.t, err)
	return runtime
}

// bash lets an agent run a command, and returns the result.
func (c *city) bash(name, command string) (string, error) {
	c.t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	require.NoError(c.t, err)
	answer, err := c.client(name).Complete(c.t.Context(), name, wire.RunRequest{Message: "/tool Bash " + string(input)})
	return answer.Text, err
}

// folder returns the directory of a deployment and the first process of its runtime.
func (c *city) folder(name string) (dir string, pid int) {
	c.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(c.data, "deployments", "*"+name+".*"))
	require.NoError(c.t, err)
	require.Len(c.t, dirs, 1)
	text, err := os.ReadFile(filepath.Join(dirs[0], "1", "state.json"))
	require.NoError(c.t, err)
	var s struct{ PID int }
	require.NoError(c.t, json.Unmarshal(text, &s))
	return dirs[0], s.PID
}

// An agent that its runtime does not confine reaches no other deployment and not the hub.
func TestDeploymentsAreIsolated(t *testing.T) {
	t.Parallel()
	users := []int{os.Getuid()}
	if os.Getuid() == 0 {
		users = append(users, 65534)
	}
	for _, user := range users {
		t.Run(strconv.Itoa(user), func(t *testing.T) {
			t.Parallel()
			key := secret.Generate()
			c := found(t, user, key)
			c.deploy("attacker", `{"mode":"off"}`)
			c.deploy("victim", `{"mode":"off"}`)
			c.deploy("confined", `{}`)
			require.NotContains(t, c.hub.Log.String(), "isolated")
			own, _ := c.folder("attacker")
			other, neighbour := c.folder("victim")

			unixPath := filepath.Join(filepath.Dir(filepath.Dir(c.data)), "engine.sock")
			engine, err := net.Listen("unix", unixPath)
			require.NoError(t, err)
			t.Cleanup(func() { _ = engine.Close() })
			require.NoError(t, os.Chmod(unixPath, 0o777)) // the attack fails for another reason
			abstract, err := net.Listen("unix", "@agenthost-isolation-"+strconv.Itoa(user))
			require.NoError(t, err)
			t.Cleanup(func() { _ = abstract.Close() })

			// None changes the machine if it succeeds.
			attacks := []string{
				"cat /etc/shadow", "ls /root/.ssh", "ls /var/lib", "ls " + filepath.Dir(c.data) + "/secret", "ls " + c.data + "/blobs",
				"cat " + other + "/1/agents.yaml", "cat " + other + "/1/keys", "ls " + other + "/work", "cat ../../" + filepath.Base(other) + "/1/agents.yaml",
				"echo x > " + c.data + "/new", "test -w /usr", "test -w /etc", "test -w /", "test -w /proc/sys/kernel/core_pattern",
				": >> ../1/agents.yaml", ": >> ../1/state.json", "rm -f ../1/keys && test ! -e ../1/keys", "mv ../work ../moved", "ln -s /etc ../1/.keys.new", "mkdir ../2",
				"cat " + own + "/../../hub.db", "grep -aqs " + key + " /proc/[0-9]*/environ",
				"ls /proc/[0-9]*/root" + c.data + "/hub.db", "ls -d /proc/[0-9]*/cwd/hub.db",
				"ls /var/run/docker.sock", "unshare -Urm true", "unshare -p true", "unshare -m true", "chroot / true", "su -c true", "chown 1 .",
				perlConnect(unixPath), perlConnect("\\0agenthost-isolation-" + strconv.Itoa(user)),
			}
			for _, entry := range entries(t, c.data) {
				attacks = append(attacks, "ls "+filepath.Join(c.data, entry))
			}
			for _, pid := range []int{c.hub.Cmd.Process.Pid, neighbour, os.Getpid()} {
				id := strconv.Itoa(pid)
				attacks = append(attacks, "kill -0 "+id, "kill -CONT -- -"+id, "ls /proc/"+id, "cat /proc/"+id+"/environ", "cat /proc/"+id+"/root/etc/passwd",
					"perl -e 'exit(syscall(101, 0x4206, "+id+", 0, 0) == 0 ? 0 : 1)'") // PTRACE_SEIZE on amd64
			}
			// Each call starts a shell: one call with all attacks is faster.
			var script strings.Builder
			for i, attack := range attacks {
				fmt.Fprintf(&script, "( %s ) > /dev/null 2>&1 < /dev/null && echo SUCCEEDED %d\n", attack, i)
			}
			output, err := c.bash("attacker", script.String()+"echo done")
			require.NoError(t, err)
			require.Contains(t, output, "done")
			for i, attack := range attacks {
				require.NotContains(t, output+"\n", fmt.Sprintf("SUCCEEDED %d\n", i), attack)
			}
			for script, want := range map[string]string{
				"id -u":                                  map[bool]string{true: "19000000", false: strconv.Itoa(user)}[user == 0],
				"pwd":                                    own + "/work",
				"echo x > f && cat f":                    "x",
				"echo home > ~/f && cat ~/f":             "home",
				"f=$(mktemp) && rm $f && echo temporary": "temporary",
				"git init -q r && cd r && git config user.email a@b && git config user.name a && git commit -q --allow-empty -m first && git log --format=%s": "first",
				"grep -q . ../1/agents.yaml && echo readable":       "readable",
				"grep -i '^CapEff\\|^NoNewPrivs' /proc/self/status": "CapEff:\t0000000000000000\nNoNewPrivs:\t1",
			} {
				output, err := c.bash("attacker", script)
				require.NoError(t, err)
				require.Contains(t, output, want, script)
			}

			// The runtime confines commands inside: they do not see its configuration.
			output, err = c.bash("confined", "cat ../1/agents.yaml ../1/keys || echo x > f && cat f; ls /proc | grep -c '^[0-9]'")
			require.NoError(t, err)
			require.Contains(t, output, "x\n")
			require.NotContains(t, output, "bypassPermissions")

			// Of the hub's directory, they see the path to their working directory.
			output, err = c.bash("confined", "cd "+c.data+" && find . -maxdepth 2 | sort")
			require.NoError(t, err)
			require.Regexp(t, `(?s)\.\n\./deployments\n\./deployments/default-confined\.[0-9a-f]{12}\n`, output)
			require.NotContains(t, output, "hub.db")
			require.NotContains(t, output, "victim")
			detail, err := c.client("confined").Agent(t.Context(), "confined")
			require.NoError(t, err)
			require.True(t, detail.Sandbox.Files && detail.Sandbox.Network, "%+v", detail.Sandbox)

			// The end of a runtime ends no other.
			_, _ = c.bash("attacker", "kill -9 $PPID")
			_, now := c.folder("victim")
			require.Equal(t, neighbour, now)
			require.NoError(t, syscall.Kill(now, 0))
			output, err = c.bash("victim", "echo alive")
			require.NoError(t, err)
			require.Contains(t, output, "alive")
			for _, name := range []string{"attacker", "victim", "confined"} {
				res := call(t, http.MethodDelete, c.path(name), c.admin, "")
				require.Equal(t, http.StatusNoContent, res.status, res.text)
			}
			require.Eventually(t, func() bool {
				left, err := filepath.Glob(filepath.Join(c.data, "deployments", "[a-z]*"))
				return err == nil && len(left) == 0
			}, daemontest.Patience, 10*time.Millisecond)
		})
	}
}

func perlConnect(path string) string {
	return `perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1; exit(connect(S, pack_sockaddr_un("` + path + `")) ? 0 : 1)'`
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range all {
		if e.Name() != "deployments" { // it is the parent of the own directory
			names = append(names, e.Name())
		}
	}
	return names
}
