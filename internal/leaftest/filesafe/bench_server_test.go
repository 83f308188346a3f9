package filesafe_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// benchServer names the environment variable with the directory to serve. The server is a separate
// process with one processor, so that its CPU time and allocations can be measured.
const benchServer = "FILESAFE_BENCH_SERVER"

// contestants are the compared handlers, each mounted below its name.
var contestants = []string{"filesafe", "FileServer", "ServeContent", "filtered"}

func serveBenchmark(path string) {
	dir, err := filesafe.Open(path)
	if err != nil {
		panic(err)
	}
	api := &filesafe.Handlers{Dir: dir}
	mux := http.NewServeMux()
	mux.HandleFunc("/filesafe/{name}", func(w http.ResponseWriter, r *http.Request) { api.Content(w, r) })
	mux.HandleFunc("/filtered/{name}", filteredContent(dir))
	mux.HandleFunc("/list/filesafe", api.List)
	mux.HandleFunc("/list/naive", naiveList(path))
	mux.Handle("/FileServer/", http.StripPrefix("/FileServer", http.FileServer(http.Dir(path))))
	mux.HandleFunc("/ServeContent/{name}", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(filepath.Join(path, r.PathValue("name")))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.ServeContent(w, r, info.Name(), info.ModTime(), f)
	})
	mux.HandleFunc("/usage", func(w http.ResponseWriter, _ *http.Request) {
		var usage syscall.Rusage
		var mem runtime.MemStats
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		runtime.ReadMemStats(&mem)
		fmt.Fprintln(w, usage.Utime.Nano()+usage.Stime.Nano(), mem.Mallocs)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	go func() { panic(http.Serve(listener, mux)) }()
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
}

// benchClient is a client with one connection and little overhead.
type benchClient struct {
	testing.TB
	conn net.Conn
	in   *bufio.Reader
	buf  []byte
}

func startBenchServer(b *testing.B, path string) *benchClient {
	program, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.Command(program) // ends with its input
	cmd.Env = append(os.Environ(), benchServer+"="+path, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	conn, err := net.Dial("tcp", strings.TrimSpace(line))
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, conn.Close())
		require.NoError(b, in.Close())
		require.NoError(b, cmd.Wait())
	})
	return &benchClient{b, conn, bufio.NewReaderSize(conn, 4<<10), make([]byte, 256<<10)}
}

// get discards the body and returns its length and its beginning.
func (c *benchClient) get(path, headers string) (int64, string) {
	_, err := io.WriteString(c.conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n"+headers+"\r\n")
	require.NoError(c, err)
	length := int64(0)
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			c.Fatal(err)
		}
		if len(line) == 2 {
			break
		}
		if text, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			_, err := fmt.Sscan(text, &length)
			require.NoError(c, err)
		}
	}
	first := ""
	for rest := length; rest > 0; {
		n, err := c.in.Read(c.buf[:min(int64(len(c.buf)), rest)])
		if err != nil {
			c.Fatal(err)
		}
		if first == "" {
			first = string(c.buf[:min(n, 100)])
		}
		rest -= int64(n)
	}
	return length, first
}

func (c *benchClient) usage() (cpu, mallocs int64) {
	_, text := c.get("/usage", "")
	_, err := fmt.Sscan(text, &cpu, &mallocs)
	require.NoError(c, err)
	return cpu, mallocs
}

// BenchmarkDownload downloads over one connection on loopback. The contestants alternate within
// each round, so that other load affects all of them. cpu-us and mallocs are those of the server
// for one download.
func BenchmarkDownload(b *testing.B) {
	path := b.TempDir()
	for name, size := range map[string]int64{"4KiB.txt": 4 << 10, "1MiB.txt": 1 << 20, "1GiB.txt": 1 << 30} {
		f, err := os.Create(filepath.Join(path, name))
		require.NoError(b, err)
		_, err = io.CopyN(f, zeros{}, size)
		require.NoError(b, err)
		require.NoError(b, f.Close())
	}
	c := startBenchServer(b, path)
	for _, row := range []struct {
		name, file, headers string
		length              int64
		turn                int // downloads in a row
	}{
		{"4KiB", "4KiB.txt", "", 4 << 10, 100},
		{"1MiB", "1MiB.txt", "", 1 << 20, 20},
		{"64KiB range", "1MiB.txt", "Range: bytes=500000-565535\r\n", 64 << 10, 100},
		{"1GiB", "1GiB.txt", "", 1 << 30, 1},
	} {
		b.Run(row.name, func(b *testing.B) {
			var total [4]struct{ took, cpu, mallocs int64 }
			rounds := 0
			for ; b.Loop(); rounds++ {
				for i := range contestants {
					i = (i + rounds) % len(contestants)
					url := "/" + contestants[i] + "/" + row.file
					if i == 0 || i == 3 {
						url += "?path=" + row.file
					}
					cpu, mallocs := c.usage()
					began := time.Now()
					for range row.turn {
						if length, _ := c.get(url, row.headers); length != row.length {
							b.Fatal(length)
						}
					}
					total[i].took += int64(time.Since(began))
					cpu2, mallocs2 := c.usage()
					total[i].cpu += cpu2 - cpu
					total[i].mallocs += mallocs2 - mallocs
				}
			}
			n := float64(rounds * row.turn)
			for i, who := range contestants {
				b.ReportMetric(float64(row.length)*n/float64(total[i].took)*1000, who+"-MB/s")
				b.ReportMetric(float64(total[i].cpu)/n/1000, who+"-cpu-us")
				b.ReportMetric(float64(total[i].mallocs)/n, who+"-mallocs")
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
