package chaos_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
)

// clockVariable names the file with the shift of a process in seconds. Without it, the file is next
// to the program.
const clockVariable = "CHAOS_CLOCK"

// shift is a file of package time in the programs whose clock can be set. The scheduler calls
// time.Now, so that it must not make system calls: the file is mapped at the start.
const shift = `package time

import (
	"syscall"
	"unsafe"
)

var shiftFile = mapShift()

func mapShift() []byte {
	name, ok := syscall.Getenv("` + clockVariable + `")
	if !ok {
		var program [4096]byte
		n, err := syscall.Readlink("/proc/self/exe", program[:])
		if err != nil {
			panic(err)
		}
		name = string(program[:n]) + ".clock"
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	defer syscall.Close(fd)
	data, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return data
}

// shift returns the number of seconds that is added to the clock.
func shift() int64 {
	if shiftFile == nil { // during the initialization
		return 0
	}
	return *(*int64)(unsafe.Pointer(&shiftFile[0]))
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
	build.Dir, build.Env = filepath.Join("..", "..", ".."), append(os.Environ(), "GOWORK=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// clock is the clock of some processes.
type clock struct {
	name string
	set  func(d time.Duration)
}

// mapped creates the file of a clock that is mapped, and returns what sets it.
func mapped(t *testing.T, name string) func(d time.Duration) {
	set := func(d time.Duration) {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d/time.Second)), 0)
		require.NoError(t, errors.Join(err, file.Close()))
	}
	set(0)
	return set
}

// faked creates the file of a clock of libfaketime, and returns what sets it.
func faked(t *testing.T, name string) func(d time.Duration) {
	set := func(d time.Duration) {
		require.NoError(t, os.WriteFile(name+".new", fmt.Appendf(nil, "%+d", d/time.Second), 0o644))
		require.NoError(t, os.Rename(name+".new", name))
	}
	set(0)
	return set
}

// The clock of a machine, of all hubs, or of the database jumps by an hour in both directions.
// Nothing that was acknowledged is lost, no response is an internal error, runtimes neither end
// nor start, and users can sign in and use everything. Hubs whose clocks differ by more than the
// age of a token reject the tokens of each other.
func TestClockJumps(t *testing.T) {
	program := buildShifted(t)
	t.Run("one hub, SQLite", func(t *testing.T) {
		in := &installation{dir: t.TempDir(), program: filepath.Join(t.TempDir(), "hub")}
		machine, read := mapped(t, in.program+".clock"), "HUB_CONFIG="+settingsFile(t, 100, filepath.Dir(in.program)) // runtimes read it too
		in.start(t, program, 1, false, read)
		in.jump(t, clock{"the machine", machine})
	})
	t.Run("two hubs, PostgreSQL and S3", func(t *testing.T) {
		shared := must(os.MkdirTemp("/tmp", "chaos")) // the user postgres reads it
		t.Cleanup(func() { _ = os.RemoveAll(shared) })
		require.NoError(t, os.Chmod(shared, 0o755))
		in := &installation{dir: t.TempDir(), program: filepath.Join(t.TempDir(), "hub"), postgresClock: filepath.Join(shared, "clock")}
		machine, one, database := mapped(t, in.program+".clock"), mapped(t, filepath.Join(in.dir, "hub1.clock")), faked(t, in.postgresClock)
		read := "HUB_CONFIG=" + settingsFile(t, 100, filepath.Dir(in.program))
		in.start(t, program, 2, true, read)
		in.jump(t, clock{"both hubs", func(d time.Duration) { machine(d); one(d) }}, clock{"PostgreSQL", database})
	})
}

// jump moves clocks, one after another: an hour ahead and back, and an hour back and ahead.
func (in *installation) jump(t *testing.T, clocks ...clock) {
	c := in.setUp(t)
	pids := processes(in.program, agentvalue.DeployedArg)
	require.Len(t, pids, 2)
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
			require.Subset(t, processes(in.program, agentvalue.DeployedArg), pids, "%s: a runtime was replaced: %s", where, in.logs())
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
