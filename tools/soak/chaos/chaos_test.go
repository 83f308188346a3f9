package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
)

const (
	agentName  = "helper"
	movedAgent = "moved" // is deployed, stopped, started and deleted all the time
	loginUser  = "ada"
	password   = "correct horse battery"
)

// gatewayVersion is the version of versitygw, a server with the interface of S3 on a directory.
const gatewayVersion = "v1.8.0"

// binaries is the directory of the programs.
var binaries string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == natsRole {
		serveNATS()
		return
	}
	if binaries = os.Getenv(namespaceVariable); binaries != "" {
		os.Exit(m.Run())
	}
	os.Exit(func() int {
		var err error
		if binaries, err = os.MkdirTemp("", "chaos"); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			return 1
		}
		defer os.RemoveAll(binaries)
		build := exec.Command("go", "build", "-o", binaries, "./cmd/hub", "./cmd/runtime")
		build.Dir, build.Env, build.Stderr = filepath.Join("..", "..", ".."), append(os.Environ(), "GOWORK="), os.Stderr
		storage := exec.Command("go", "install", "github.com/versity/versitygw/cmd/versitygw@"+gatewayVersion)
		storage.Env, storage.Stderr = append(os.Environ(), "GOBIN="+binaries, "GOFLAGS=", "CGO_ENABLED=0"), os.Stderr
		if err := errors.Join(build.Run(), storage.Run()); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			return 1
		}
		return m.Run()
	}())
}

// chaosTime is the time of one of the four installations.
func chaosTime(t *testing.T) time.Duration {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("CHAOSTIME"), "10m"))
	require.NoError(t, err)
	return length / 4
}

// setUp creates the users and agents of an installation, and deploys one.
func (in *installation) setUp(t *testing.T) *client {
	c := &client{urls: in.urls[:1], keys: map[string]string{}, journal: newJournal()}
	post := func(path string, body, out any) {
		t.Helper()
		require.NoError(t, c.call(t.Context(), http.MethodPost, path, body, out))
	}
	var pair struct {
		Access string `json:"access_token"`
	}
	post("/auth/setup", object{"username": "admin", "password": password, "setup_token": setupToken}, &pair)
	c.token = pair.Access
	var caller struct{ ID string }
	require.NoError(t, c.call(t.Context(), http.MethodGet, "/auth/userinfo", nil, &caller))
	c.user = caller.ID
	in.newUser(t, c, loginUser, "member")
	c.logins = append(c.logins, write{name: loginUser, acknowledged: true})
	var provider struct{ ID string }
	post("/api/v1/admin/providers", object{"name": "upstream", "protocol": "anthropic", "baseUrl": in.upstream.URL, "apiKey": "k"}, &provider)
	for _, name := range []string{agentName, movedAgent} {
		post("/api/v1/admin/agents", object{"name": name, "providerId": provider.ID, "model": "m"}, nil)
	}
	post("/api/v1/admin/agents/"+agentName+"/deploy", nil, nil)
	require.NoError(t, in.await(t.Context(), c, agentName, "running"), in.logs())
	c.noteKey(t, agentName)
	in.deployPaying(t, c)
	c.users = []*client{c}
	for _, name := range []string{"ben", "cleo"} {
		user := in.newUser(t, c, name, "maintainer")
		var issued struct{ Token string }
		require.NoError(t, user.call(t.Context(), http.MethodPost, "/api/v1/cli/issue-token", object{"name": "chaos"}, &issued))
		user.token, user.urls = issued.Token, in.urls
		c.users = append(c.users, user)
	}
	c.urls = in.urls
	return c
}

// newUser creates a user with the password, and signs in.
func (in *installation) newUser(t *testing.T, admin *client, name, role string) *client {
	const first = "a password to change"
	var created struct{ ID string }
	require.NoError(t, admin.call(t.Context(), http.MethodPost, "/api/v1/admin/users", object{"username": name, "password": first, "role": role}, &created))
	var pair struct {
		Access string `json:"access_token"`
	}
	user := &client{urls: admin.urls, user: created.ID, keys: admin.keys, journal: admin.journal}
	require.NoError(t, user.call(t.Context(), http.MethodPost, "/auth/login", object{"username": name, "password": first}, &pair))
	user.token = pair.Access
	require.NoError(t, user.call(t.Context(), http.MethodPost, "/auth/change-password", object{"old_password": first, "new_password": password}, nil))
	return user
}

// await waits until a deployment has a state.
func (in *installation) await(ctx context.Context, c *client, name, state string) error {
	return eventually(ctx, patience, func(ctx context.Context) error {
		var d struct {
			State, Health string
			Conditions    []struct{ Type, Message string }
		}
		if err := c.call(ctx, http.MethodGet, "/api/v1/admin/agents/"+name+"/deploy", nil, &d); err != nil {
			return err
		}
		if d.State != state {
			return fmt.Errorf("the deployment %s is %s (%s, %v) instead of %s", name, d.State, d.Health, d.Conditions, state)
		}
		return nil
	})
}

// probe makes a whole chat through each hub, and reads a tool if there is one. It returns the time.
func (in *installation) probe(ctx context.Context, c *client) (time.Duration, error) {
	begin := time.Now()
	for _, url := range in.urls {
		one := &client{urls: []string{url}, token: c.token, user: c.user, journal: c.journal}
		chat, err := one.newChat(ctx, agentName, "")
		if err != nil {
			return 0, err
		}
		if _, err := one.ask(ctx, chat, "chat-PROBE#0"); err != nil {
			return 0, err
		}
		if in.storage != nil && len(c.tools) > 0 && c.tools[0].acknowledged {
			if err := one.call(ctx, http.MethodGet, "/api/v1/admin/tools/"+c.tools[0].name+"/download", nil, nil); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(begin), nil
}

// load runs all callers until the context ends.
func load(ctx context.Context, c *client) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, caller := range callers {
		for range caller.count {
			all.Go(func() {
				s := &state{}
				for ctx.Err() == nil {
					// A request is completed after the end too: its outcome is known then.
					caller.step(c, context.WithoutCancel(ctx), s)
					select {
					case <-ctx.Done():
					case <-time.After(caller.pause):
					}
				}
			})
		}
	}
	return &all
}

// victim is what can be killed. Only a runtime has a pause after it is in service again: one that
// ends again and again within ten seconds is in a crash loop, and its deployment fails by contract.
type victim struct {
	kind  string
	kill  func()
	pause time.Duration
}

func (in *installation) victims() (all []victim) {
	for _, d := range in.hubs {
		all = append(all, victim{kind: "hub", kill: d.kill})
	}
	all = append(all, victim{kind: "runtime", pause: 12 * time.Second, kill: func() {
		pids := processes(in.program, agentvalue.DeployedArg)
		if len(pids) > 0 {
			_ = syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL)
		}
	}})
	if in.postgres != nil {
		all = append(all, victim{kind: "postgres", kill: in.postgres.kill})
	}
	if in.storage != nil {
		all = append(all, victim{kind: "s3", kill: in.storage.kill})
	}
	return all
}

// Whatever is killed, nothing that was acknowledged is lost.
func TestChaos(t *testing.T) {
	for _, row := range []struct {
		name       string
		hubs       int
		replicable bool
	}{{"one hub, SQLite", 1, false}, {"one hub, PostgreSQL and S3", 1, true}, {"two hubs, PostgreSQL and S3", 2, true}} {
		t.Run(row.name, func(t *testing.T) {
			in := newInstallation(t, row.hubs, row.replicable)
			c := in.setUp(t)
			k := &checker{in: in, c: c}
			outages := map[string][]time.Duration{}
			for end := time.Now().Add(chaosTime(t)); time.Now().Before(end); {
				in.round(t, k, outages)
			}
			findings := k.check(t.Context())
			report(c.journal, outages)
			require.Empty(t, findings, in.logs())
			in.remove(t, k)
		})
	}
}

// longOutage is the time out of service after which the test prints the reason.
const longOutage = 5 * time.Second

// roundTime is the time between two comparisons with the bill of the upstreams.
const roundTime = 20 * time.Second

// round kills victims under the whole load, and compares the bill when all requests have ended.
func (in *installation) round(t *testing.T, k *checker, outages map[string][]time.Duration) {
	ctx, stop := context.WithTimeout(t.Context(), roundTime)
	defer stop()
	running := load(ctx, k.c)
	in.killAll(t, ctx, k.c, outages)
	running.Wait()
	k.checkBill(t.Context())
	require.Empty(t, k.findings, in.logs())
	fmt.Println(in.compared)
}

// killAll kills random victims until the context ends, and adds for each kind how long no chat was
// possible.
func (in *installation) killAll(t *testing.T, ctx context.Context, c *client, outages map[string][]time.Duration) {
	all := in.victims()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(500+rand.IntN(3000)) * time.Millisecond):
		}
		v := all[rand.IntN(len(all))]
		if time.Since(in.killed[v.kind]) < v.pause {
			continue
		}
		v.kill()
		begin := time.Now()
		var took time.Duration
		var failure error
		err := eventually(t.Context(), patience, func(ctx context.Context) (err error) {
			if took, err = in.probe(ctx, c); err != nil {
				failure = err
			}
			return err
		})
		require.NoError(t, err, "after the kill of %s: %s", v.kind, in.logs())
		in.killed[v.kind] = time.Now()
		outage := time.Since(begin) - took
		outages[v.kind] = append(outages[v.kind], outage)
		if outage > longOutage {
			fmt.Printf("%s was killed at %s, and the last failure after %v was: %v\n%s\n", v.kind, begin.Format(time.TimeOnly), outage, failure, in.events(begin))
		}
	}
}

// remove deletes the deployments, after which no process of them exists.
func (in *installation) remove(t *testing.T, k *checker) {
	for _, name := range []string{agentName, payingAgent} {
		require.NoError(t, k.c.call(t.Context(), http.MethodDelete, "/api/v1/admin/agents/"+name+"/deploy", nil, nil))
		require.NoError(t, in.await(t.Context(), k.c, name, "not_deployed"))
	}
	k.checkProcesses(t.Context(), 0)
	require.Empty(t, k.findings)
}

// report prints the numbers of requests and the times out of service.
func report(j *journal, outages map[string][]time.Duration) {
	var line []string
	for _, kind := range slices.Sorted(maps.Keys(j.counts)) {
		line = append(line, fmt.Sprintf("%d %s", j.counts[kind], kind))
	}
	fmt.Println(strings.Join(line, ", "))
	for _, kind := range slices.Sorted(maps.Keys(outages)) {
		times := outages[kind]
		slices.Sort(times)
		fmt.Printf("%-10s %3d kills, out of service %v at the median, %v at most\n", kind, len(times),
			times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	}
}
