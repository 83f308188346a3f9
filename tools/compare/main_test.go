package compare_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// upstreamVariable makes a process of this test binary an upstream, so that its CPU time is not
// that of the client.
const upstreamVariable = "AGENTHOST_COMPARE_UPSTREAM"

func TestMain(m *testing.M) {
	if os.Getenv(upstreamVariable) == "" {
		os.Exit(m.Run())
	}
	if err := serveUpstream(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveUpstream implements both protocols below the name of each load until its standard input
// ends.
func serveUpstream() error {
	mux := http.NewServeMux()
	for _, l := range loads {
		for _, p := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
			prefix := "/" + l.name + "/" + string(p)
			mux.Handle(prefix+"/", http.StripPrefix(prefix, modeltest.New(p, modeltest.Repeat(l.reply()))))
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	fmt.Printf("http://%s\n", listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Close()
}

// startUpstream starts an upstream that ends with the benchmark, and returns its address.
func startUpstream(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), upstreamVariable+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(address)
}
