package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	runtimeclient "github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// natsRole is the first argument of this binary as a NATS server. The others are its port, its
// directory, and the port of its monitoring or 0.
const natsRole = "nats"

// natsCommand returns the command of a NATS server. The address of its monitoring may be "".
func natsCommand(address, store, monitoring string) *exec.Cmd {
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	return exec.Command(must(os.Executable()), natsRole, port(address), store, cmp.Or(port(monitoring), "0"))
}

func serveNATS() {
	port, monitoring := must(strconv.Atoi(os.Args[2])), must(strconv.Atoi(os.Args[4]))
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, HTTPHost: "127.0.0.1", HTTPPort: monitoring, JetStream: true, StoreDir: os.Args[3],
		SyncAlways: monitoring == 0, // a kill loses nothing
	})
	if err != nil {
		panic(err)
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
}

// replicas are runtimes of one agent with a bus.
type replicas struct {
	nats     *daemon
	runtimes []*daemon
	clients  []*runtimeclient.Client
	upstream *modeltest.Upstream

	mu     sync.Mutex
	counts map[string]int
	faults []string
}

func startReplicas(t *testing.T) *replicas {
	r := &replicas{counts: map[string]int{}}
	r.upstream = modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	address, store := freeAddress(t), t.TempDir()
	r.nats = startDaemon(t, t.TempDir(), "nats", func() *exec.Cmd {
		return natsCommand(address, store, "")
	})
	accepts(t, r.nats, address)
	dir := t.TempDir()
	agents := "agents: [{id: " + agentName + ", model: m, provider: {protocol: anthropic, baseUrl: " + r.upstream.URL + ", apiKey: k}}]"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(agents), 0o600))
	for i := range 2 {
		at, state := freeAddress(t), t.TempDir()
		d := startDaemon(t, t.TempDir(), fmt.Sprint("runtime", i+1), func() *exec.Cmd {
			cmd := exec.Command(filepath.Join(binaries, "runtime"), "--addr", at)
			cmd.Dir, cmd.Env = dir, []string{"AGENT_BUS_URL=nats://" + address + "/" + agentName, "AGENT_STATE_DIR=" + state, "HOME=" + dir}
			return cmd
		})
		accepts(t, d, at)
		c, err := runtimeclient.New(runtimeclient.Config{BaseURL: "http://" + at})
		require.NoError(t, err)
		r.runtimes, r.clients = append(r.runtimes, d), append(r.clients, c)
	}
	return r
}

// A cancel that any replica acknowledges ends the run, whatever is killed: the client of the run
// receives the event cancelled, or its replica was killed. No model is called any longer.
func TestChaosOfReplicas(t *testing.T) {
	r := startReplicas(t)
	ctx, stop := context.WithTimeout(t.Context(), chaosTime(t))
	defer stop()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				r.cancelled(context.WithoutCancel(ctx))
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	victims := append([]*daemon{r.nats}, r.runtimes...)
	kills := map[string]int{}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(1000+rand.IntN(4000)) * time.Millisecond):
			v := victims[rand.IntN(len(victims))]
			kills[v.name]++
			v.kill()
		}
	}
	all.Wait()
	fmt.Println("kills:", kills, "cancels:", r.counts)
	require.Empty(t, r.faults, "%s\n%s\n%s", r.nats.tail(), r.runtimes[0].tail(), r.runtimes[1].tail())
	require.Positive(t, r.counts["acknowledged"])
	require.NoError(t, eventually(t.Context(), patience, func(context.Context) error {
		for _, request := range r.upstream.Requests() {
			if at, _ := request.End(); at.IsZero() {
				return errors.New("a request to the model is open, and no run is in progress")
			}
		}
		return nil
	}))
}

// cancelled starts a run at one replica and cancels it at the other.
func (r *replicas) cancelled(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, requestTime)
	defer stop()
	here := rand.IntN(2)
	acknowledged, outcome := false, ""
	for event, err := range r.clients[here].Run(ctx, agentName, wire.RunRequest{Message: "hello"}) {
		if err != nil {
			outcome = "disconnected"
			break
		}
		switch payload := event.Payload.(type) {
		case *wire.System:
			if _, err := r.clients[1-here].Cancel(ctx, payload.RunID); err == nil {
				acknowledged = true
			} else {
				stop() // the other replica or the bus is away: the disconnect ends the run
			}
		case *wire.Cancelled:
			outcome = string(payload.Reason)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if acknowledged {
		r.counts["acknowledged"]++
	}
	r.counts[outcome]++
	if acknowledged && ctx.Err() != nil {
		r.faults = append(r.faults, "a cancel was acknowledged, and the run continued")
	}
}
