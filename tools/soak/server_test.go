package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
)

// server is a process under attack.
type server struct {
	url, metrics string
	pid          int
	dir          string          // working directory
	out          *logtest.Buffer // standard output
	log          string          // file with its log

	database func(context.Context) (int64, error) // returns the size of the database; may be nil
}

// start starts a program in a directory, until the test ends.
func start(t *testing.T, dir string, env []string, name string, args ...string) *server {
	s := &server{dir: dir, out: &logtest.Buffer{}, log: filepath.Join(dir, "log")}
	log, err := os.Create(s.log)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, s.out, log
	cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(stepTime):
			t.Error("the server did not end: " + s.tail())
			_ = cmd.Process.Kill()
		}
	})
	s.pid = cmd.Process.Pid
	s.url = s.printed(t, regexp.MustCompile(`listening on (http://\S+)\n`))
	text, _ := os.ReadFile(s.log)
	if m := regexp.MustCompile(`"addr":"([^"]+)"[^\n]*"serving metrics"`).FindSubmatch(text); m != nil {
		s.metrics = "http://" + string(m[1]) + "/metrics"
	}
	return s
}

// printed waits for a line of the standard output, and returns the first group.
func (s *server) printed(t *testing.T, pattern *regexp.Regexp) string {
	late := time.After(2 * stepTime)
	for {
		text, wrote := s.out.Now()
		if m := pattern.FindStringSubmatch(text); m != nil {
			return m[1]
		}
		select {
		case <-wrote:
		case <-late:
			require.FailNow(t, "the server does not start", s.tail())
		}
	}
}

// tail returns the end of the log.
func (s *server) tail() string {
	data, _ := os.ReadFile(s.log)
	return string(data[max(0, len(data)-2000):])
}

// sample is a measurement of a server and its workers. A value that is not known is 0. The memory
// is without the pages of the program, which all processes share: 44 MiB of the hub, most of them
// of libraries.
type sample struct{ memory, goroutines, files, database int64 }

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

func (s *server) sample(ctx context.Context) (now sample, err error) {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.pid))
	if err != nil {
		return now, fmt.Errorf("the server has ended: %w", err)
	}
	for _, pid := range family(s.pid) {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); exe != program || pid != s.pid && program == self {
			continue // a process of an attack
		}
		statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if fields := strings.Fields(string(statm)); len(fields) > 2 {
			now.memory += (number(fields[1]) - number(fields[2])) * int64(os.Getpagesize())
		}
	}
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	now.files = int64(len(open))
	if s.metrics != "" {
		_, text, err := send(ctx, http.MethodGet, s.metrics, nil, "")
		if err != nil {
			return now, err
		}
		now.goroutines = number(goroutines.FindStringSubmatch(text)[1])
	}
	if s.database != nil {
		now.database, err = s.database(ctx)
	}
	return now, err
}

// processor returns the processor time of the server, without that of its workers.
func (s *server) processor() time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third one
	if len(fields) < 13 {
		return 0
	}
	return time.Duration(number(fields[11])+number(fields[12])) * 10 * time.Millisecond // ticks
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// family returns a process and its descendants.
func family(pid int) []int {
	all := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			all = append(all, family(int(number(field)))...)
		}
	}
	return all
}

// medians returns the median of each measurement, and the lowest tenth of the memory.
func medians(samples []sample) sample {
	quantile := func(of func(sample) int64, share int) int64 {
		var values []int64
		for _, s := range samples {
			values = append(values, of(s))
		}
		slices.Sort(values)
		return values[len(values)*share/100]
	}
	return sample{
		quantile(func(s sample) int64 { return s.memory }, 10), quantile(func(s sample) int64 { return s.goroutines }, 50),
		quantile(func(s sample) int64 { return s.files }, 50), quantile(func(s sample) int64 { return s.database }, 50),
	}
}

// send sends a request and returns the status and the body. Header are pairs.
func send(ctx context.Context, method, url string, client *http.Client, body string, header ...string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// write writes files below a directory: pairs of a name and its content.
func write(t *testing.T, dir string, files ...string) {
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(files[i+1]), 0o600))
	}
}
