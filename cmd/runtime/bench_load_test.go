package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// subject is a server to measure.
type subject struct {
	name  string
	start func(*testing.B, *bench) *child
	// request returns a complete HTTP request for the run with that number.
	request func(n int) []byte
	// token occurs in the response once per token.
	token string
}

const (
	frame = "event: partial_message\n"
	delta = "event: content_block_delta\n"

	blockingText = `"text":`     // once in the response of a blocking run
	chatText     = `"content":"` // once in the response of a blocking chat completion
)

var (
	runtimeAnthropic = subject{"runtime-anthropic", startRuntime, runRequest("anthropic"), frame}
	runtimeOpenAI    = subject{"runtime-openai", startRuntime, runRequest("openai"), frame}
	runtimeTools     = subject{"runtime-tools", startRuntime, runRequest("tools"), frame}
	runtimeDisk      = subject{"runtime-disk", startOnDisk, runRequest("anthropic"), frame}
	limitDrained     = subject{"limit", startAgainst("limit"), runRequest("anthropic"), frame}
	limitEach        = subject{"limit-flush-each", startAgainst("limit-flush-each"), runRequest("anthropic"), frame}
	proxy            = subject{"proxy", startAgainst("proxy"), modelRequest, delta}
	direct           = subject{"direct", nil, modelRequest, delta} // upstream itself
)

func startAgainst(role string) func(*testing.B, *bench) *child {
	return func(b *testing.B, t *bench) *child {
		b.Helper()
		return startRole(b, &t.cores.server, role, upstreamVariable+"="+t.upstream.addr)
	}
}

// runID returns the id of a run in advance, for its cancel.
func runID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

func runRequest(agent string) func(int) []byte {
	return func(n int) []byte {
		return post("/v1/agents/"+agent+"/runs", fmt.Sprintf(`{"message":"Tell me a story. %s","runId":%q}`, mark(n), runID(n)))
	}
}

func modelRequest(n int) []byte {
	return post("/v1/messages", fmt.Sprintf(
		`{"model":"modeltest","max_tokens":1024,"stream":true,"messages":[{"role":"user","content":"Tell me a story. %s"}]}`, mark(n)),
		modelHeader...)
}

var modelHeader = []string{"Anthropic-Version: 2023-06-01", "X-Api-Key: key"}

func cancelRequest(n int) []byte { return post("/v1/runs/"+runID(n)+"/cancel", "") }

func post(path, body string, header ...string) []byte {
	var req bytes.Buffer
	fmt.Fprintf(&req, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path,
		len(body))
	for _, line := range header {
		req.WriteString(line + "\r\n")
	}
	req.WriteString("\r\n" + body)
	return req.Bytes()
}

// connection is a keep-alive client. It is not an http.Client, so that the load uses less CPU than
// the subject.
type connection struct {
	conn   net.Conn
	reader *bufio.Reader
	token  []byte
	body   io.ReadCloser
	data   []byte // of the response so far; reused by the next one
	seen   int    // up to where tokens are counted
	tokens int
}

func (s *subject) dial(addr string) (*connection, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, reader: bufio.NewReaderSize(conn, 8<<10), token: []byte(s.token)}, nil
}

// open starts run n on a new connection and reads until its response hangs.
func (s *subject) open(addr string, n int) (*connection, error) {
	c, err := s.dial(addr)
	if err != nil {
		return nil, err
	}
	if err := c.send(s.request(n)); err != nil {
		return c, err
	}
	err = c.await(openTokens)
	return c, err
}

func (c *connection) close() { _ = c.conn.Close() }

// send sends a request and reads the head of its response.
func (c *connection) send(request []byte) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	c.body, c.data, c.seen, c.tokens = resp.Body, c.data[:0], 0, 0
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	return nil
}

// await reads until exactly n tokens have arrived.
func (c *connection) await(n int) error {
	for c.tokens < n {
		if err := c.read(); err != nil && c.tokens < n { // the last tokens may come with io.EOF
			return err
		}
	}
	return nil
}

// finish reads the rest of the response.
func (c *connection) finish() error {
	for {
		err := c.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *connection) read() error {
	if cap(c.data)-len(c.data) < 1<<10 {
		c.data = append(make([]byte, 0, 2*cap(c.data)+4<<10), c.data...)
	}
	n, err := c.body.Read(c.data[len(c.data):cap(c.data)])
	c.data = c.data[:len(c.data)+n]
	for {
		i := bytes.Index(c.data[c.seen:], c.token)
		if i < 0 {
			break
		}
		c.tokens++
		c.seen += i + len(c.token)
	}
	c.seen = max(c.seen, len(c.data)-len(c.token)+1, 0)
	return err
}

// run executes one run, and fails unless every token arrives.
func (c *connection) run(request []byte, tokens int) error {
	if err := c.send(request); err != nil {
		return err
	}
	if err := c.finish(); err != nil {
		return err
	}
	if c.tokens != tokens {
		return fmt.Errorf("%d tokens came, want %d:\n%s", c.tokens, tokens, c.data)
	}
	return nil
}

type connections []*connection

// dialAll opens n connections, which are closed when the benchmark ends.
func (s *subject) dialAll(b *testing.B, addr string, n int) connections {
	b.Helper()
	list := make(connections, n)
	for i := range list {
		c, err := s.dial(addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.close)
		list[i] = c
	}
	return list
}

func (c connections) close() {
	for _, conn := range c {
		conn.close()
	}
}

// side calls f concurrently for each of n workers and returns the first error.
func side(n int, f func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	var first error
	for range n {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
