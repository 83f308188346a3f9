package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// clockVariable names the file with the shift of a process in seconds. Without it, the file is next
// to the program.
const clockVariable = "CHAOS_CLOCK"

// shift is a file of package time in the programs whose clock can be set.
const shift = `package time

import "syscall"

var shiftFile = func() string {
	if name, ok := syscall.Getenv("` + clockVariable + `"); ok {
		return name
	}
	var name [4096]byte
	n, err := syscall.Readlink("/proc/self/exe", name[:])
	if err != nil {
		return ""
	}
	return string(name[:n]) + ".clock"
}()

// shift returns the number of seconds that is added to the clock.
func shift() (seconds int64) {
	fd, err := syscall.Open(shiftFile, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	var text [20]byte
	n, _ := syscall.Read(fd, text[:])
	_ = syscall.Close(fd)
	sign := int64(1)
	for _, c := range text[:max(n, 0)] {
		switch {
		case c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			seconds = seconds*10 + int64(c-'0')
		}
	}
	return sign * seconds
}
`

// buildShifted builds the hub with a wall clock that can be set. The monotonic clock is as it was,
// which is what happens if a machine gets another time.
func buildShifted(t *testing.T) (program string) {
	dir, source := t.TempDir(), filepath.Join(runtime.GOROOT(), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	require.NoError(t, err)
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	require.Equal(t, 1, strings.Count(string(text), now), "time.Now of %s is another one", runtime.Version())
	replaced := map[string]string{}
	for name, text := range map[string]string{"time.go": strings.Replace(string(text), now, now+"\tsec += shift()\n", 1), "shift.go": shift} {
		replaced[filepath.Join(source, name)] = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	overlay := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, must(json.Marshal(object{"Replace": replaced})), 0o600))
	program = filepath.Join(binaries, "hub-with-clock")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./cmd/hub")
	build.Dir = filepath.Join("..", "..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// clock is the clock of some processes.
type clock struct {
	name string
	set  func(d time.Duration)
}

// setFile writes the shift of a clock to a file, whole seconds with a sign.
func setFile(t *testing.T, file string) func(d time.Duration) {
	return func(d time.Duration) {
		require.NoError(t, os.WriteFile(file+".new", fmt.Appendf(nil, "%+d", int(d.Seconds())), 0o644))
		require.NoError(t, os.Rename(file+".new", file))
	}
}

// The clock of a machine, of one hub, or of the database jumps by an hour in both directions. Nothing
// that was acknowledged is lost, no response is an internal error, runtimes neither end nor start,
// and users can sign in and use everything.
func TestClockJumps(t *testing.T) {
	program := buildShifted(t)
	t.Run("one hub, SQLite", func(t *testing.T) {
		in := &installation{dir: t.TempDir()}
		in.start(t, program, 1, false)
		in.jump(t, clock{"the machine", setFile(t, in.program+".clock")})
	})
	t.Run("two hubs, PostgreSQL and S3", func(t *testing.T) {
		in := &installation{dir: t.TempDir(), postgresClock: sharedFile(t, "+0")}
		in.start(t, program, 2, true)
		both, one := setFile(t, in.program+".clock"), setFile(t, filepath.Join(in.dir, "hub1.clock"))
		in.jump(t, clock{"both hubs", func(d time.Duration) { both(d); one(d) }}, clock{"one of two hubs", one},
			clock{"PostgreSQL", setFile(t, in.postgresClock)})
	})
}

// sharedFile creates a file that every user may read.
func sharedFile(t *testing.T, text string) string {
	dir := must(os.MkdirTemp("/tmp", "chaos"))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	name := filepath.Join(dir, "shared")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

// jump moves clocks, one after another: an hour ahead and back, and an hour back and ahead.
func (in *installation) jump(t *testing.T, clocks ...clock) {
	c := in.setUp(t)
	pids := processes(in.program, agent.DeployedArg)
	require.Len(t, pids, 1)
	for _, clock := range clocks {
		for _, to := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
			ctx, stop := context.WithCancel(t.Context())
			running := load(ctx, c)
			<-time.After(time.Second)
			clock.set(to)
			<-time.After(2 * time.Second)
			stop()
			running.Wait()
			where := fmt.Sprintf("%s is at %v", clock.name, to)
			in.signInAgain(t, c, where)
			before := c.acknowledged()
			phase(t, c, 3*time.Second)
			for kind, n := range c.acknowledged() {
				require.Greater(t, n, before[kind], "%s: %s: %s", where, kind, in.logs())
			}
			require.True(t, slices.Contains(processes(in.program, agent.DeployedArg), pids[0]), "%s: the runtime was replaced: %s", where, in.logs())
		}
	}
	k := &checker{in: in, c: c}
	findings := k.check(t.Context())
	report(c.journal, nil)
	require.Empty(t, findings, in.logs())
	in.remove(t, k)
}

// signInAgain signs the callers in, with a token that each hub accepts.
func (in *installation) signInAgain(t *testing.T, c *client, where string) {
	begin := time.Now()
	require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
		var pair struct {
			Access string `json:"access_token"`
		}
		if err := c.call(ctx, http.MethodPost, "/auth/login", object{"username": "admin", "password": password}, &pair); err != nil {
			return errors.New(err.Error()) // also if it is denied
		}
		c.token = pair.Access
		if _, err := in.probe(ctx, c); err != nil {
			return errors.New(err.Error())
		}
		return nil
	}), "%s: %s", where, in.logs())
	fmt.Printf("%s: in service after %v\n", where, time.Since(begin).Round(time.Millisecond))
}

// acknowledged returns the numbers of acknowledged requests of each kind.
func (j *journal) acknowledged() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	counts := map[string]int{}
	for kind, n := range j.counts {
		if name, ok := strings.CutSuffix(kind, " acknowledged"); ok {
			counts[name] = n
		}
	}
	return counts
}
