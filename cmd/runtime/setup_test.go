package main_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	main "github.com/seed93082962/agenthost/cmd/runtime"
	"github.com/seed93082962/agenthost/runtime/client"
)

// scratch is where the command is built. It goes when the tests are over.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "agenthost-runtime-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(scratch)
		os.Exit(code)
	}))
}

// binary is the command as it is shipped.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "runtime")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})

// patience is how long a test waits for what is bound to come: long, as the machine may be busy.
const patience = 30 * time.Second

// instance is a runtime that serves, in this process or in one of its own.
type instance struct {
	url         string
	stdout, log *output
	ended       chan struct{} // closed when it is over, and then:
	err         error
}

// environment makes a getenv of pairs.
func environment(pairs []string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// serving runs the command in this process, on a free port and until the test ends. The
// environment is given in pairs.
func serving(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	in := &instance{stdout: newOutput(), log: newOutput(), ended: make(chan struct{})}
	go func() {
		defer close(in.ended)
		in.err = main.Run(ctx, append([]string{"--addr", "127.0.0.1:0"}, args...), environment(env), in.stdout, in.log)
	}()
	t.Cleanup(func() {
		stop()
		in.wait(t)
		require.NoError(t, in.err)
	})
	in.started(t)
	return in
}

// once runs the command in this process where it is to end by itself.
func once(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	err = main.Run(t.Context(), args, environment(env), &out, &log)
	return out.String(), log.String(), err
}

// process is a run of the binary.
type process struct {
	*instance
	cmd *exec.Cmd
}

// spawn starts the command in the folder dir. It is killed at the end of the test if it still
// runs then.
func spawn(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	p := &process{
		instance: &instance{stdout: newOutput(), log: newOutput(), ended: make(chan struct{})},
		cmd:      exec.Command(path, args...),
	}
	p.cmd.Dir, p.cmd.Env = dir, []string{"HOME=" + dir}
	for i := 0; i+1 < len(env); i += 2 {
		p.cmd.Env = append(p.cmd.Env, env[i]+"="+env[i+1])
	}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.log
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error says that it is over
		p.wait(t)
	})
	return p
}

var listening = regexp.MustCompile(`listening on (http://\S+)\n`)

// started waits for the banner and reads the address from it.
func (in *instance) started(t *testing.T) {
	t.Helper()
	in.url = in.await(t, in.stdout, listening)[1]
}

func (in *instance) wait(t *testing.T) {
	t.Helper()
	select {
	case <-in.ended:
	case <-time.After(patience):
		require.FailNow(t, "the runtime does not end", "stdout: %s\nlog: %s", in.stdout, in.log)
	}
}

// await waits until an output of the instance matches.
func (in *instance) await(t *testing.T, o *output, pattern *regexp.Regexp) []string {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	ended := in.ended
	for {
		text, wrote := o.now()
		if match := pattern.FindStringSubmatch(text); match != nil {
			return match
		}
		if ended == nil {
			require.FailNow(t, "the runtime ended before "+pattern.String(), "stdout: %s\nlog: %s\nerror: %v", in.stdout, in.log, in.err)
		}
		select {
		case <-wrote:
		case <-ended:
			ended = nil // look once more
		case <-late.C:
			require.FailNow(t, "the runtime does not write "+pattern.String(), "stdout: %s\nlog: %s", in.stdout, in.log)
		}
	}
}

func (in *instance) client(t *testing.T, key string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: in.url, APIKey: key, HTTPClient: caller(t)})
	require.NoError(t, err)
	return c
}

// caller is an HTTP client whose connections end with the test.
func caller(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// output is what a program writes, while it writes it.
type output struct {
	mu    sync.Mutex // guards all below
	buf   bytes.Buffer
	wrote chan struct{} // closed by the next write
}

func newOutput() *output { return &output{wrote: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.wrote)
	o.wrote = make(chan struct{})
	return o.buf.Write(p)
}

// now returns what was written so far, and a channel that is closed by the next write.
func (o *output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.wrote
}

func (o *output) String() string {
	text, _ := o.now()
	return text
}

// write puts a configuration file into a new folder and returns the folder.
func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(strings.TrimSpace(text)+"\n"), 0o600))
	return dir
}
