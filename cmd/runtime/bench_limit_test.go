package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

// The limit is the cost of a server that does only the unavoidable work: accept the request, call
// upstream, decode its events, encode its own, flush. It checks, stores and logs nothing, and takes
// every shortcut that its one upstream permits.

const upstreamVariable = "AGENTHOST_TEST_UPSTREAM"

// flushing selects when the limit flushes.
type flushing int

const (
	flushWhenDrained flushing = iota // when no complete event of upstream is buffered
	flushEachEvent
)

type limit struct {
	url   string
	flush flushing
	http  *http.Client
}

func serveLimit(f flushing) error {
	return serveRole(&limit{
		url:   "http://" + os.Getenv(upstreamVariable) + "/v1/messages",
		flush: f,
		http: &http.Client{Transport: &http.Transport{
			DisableCompression: true, MaxIdleConnsPerHost: 1024, ReadBufferSize: limitBuffer,
		}},
	})
}

// limitBuffer holds about thirty events: a larger buffer would save system calls at full speed, but
// each open stream holds one.
const limitBuffer = 4 << 10

type limitMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type limitRequest struct {
	Model     string         `json:"model"`
	MaxTokens int            `json:"max_tokens"`
	Stream    bool           `json:"stream"`
	Messages  []limitMessage `json:"messages"`
}

func (l *limit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(w, "ready")
		return
	}
	var in struct{ Message string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := json.Marshal(limitRequest{"modeltest", 1024, true, []limitMessage{{"user", in.Message}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Api-Key", "key")
	resp, err := l.http.Do(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	if err := l.relay(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

var (
	limitData  = []byte("data: ")
	limitDelta = []byte(`data: {"type":"content_block_delta"`)
	limitText  = []byte(`"text":`)
	limitStop  = []byte(`data: {"type":"message_stop"`)
)

// relay copies the text of each delta, a JSON string, into a frame like the runtime's, including
// escapes.
func (l *limit) relay(w http.ResponseWriter, body io.Reader) error {
	events := bufio.NewReaderSize(body, limitBuffer)
	out := make([]byte, 0, limitBuffer)
	flusher, ok := w.(http.Flusher)
	if !ok {
		return errors.ErrUnsupported
	}
	for {
		line, err := events.ReadSlice('\n')
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, limitData) {
			continue
		}
		stop := bytes.HasPrefix(line, limitStop)
		switch {
		case stop:
			out = append(out, "event: done\ndata: {}\n\n"...)
		case bytes.HasPrefix(line, limitDelta):
			if at := bytes.LastIndex(line, limitText); at >= 0 {
				text := bytes.TrimRight(line[at+len(limitText):], "}\n")
				out = append(out, "event: partial_message\n"+`data: {"type":"partial_message","partial":{"type":"text","text":`...)
				out = append(append(out, text...), "}}\n\n"...)
			}
		}
		if len(out) == 0 || l.flush == flushWhenDrained && !stop && wholeEvent(events) {
			continue
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
		out = out[:0]
		if stop { // the end of the response flushes
			_, err := io.Copy(io.Discard, events)
			return err
		}
		flusher.Flush()
	}
}

// wholeEvent reports whether another event can be read without waiting for upstream.
func wholeEvent(r *bufio.Reader) bool {
	rest, _ := r.Peek(r.Buffered())
	at := bytes.Index(rest, limitData)
	return at >= 0 && bytes.IndexByte(rest[at:], '\n') >= 0
}

// serveProxy forwards bytes without decoding.
func serveProxy() error {
	upstream := &url.URL{Scheme: "http", Host: os.Getenv(upstreamVariable)}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		FlushInterval: -1,
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1024},
	}
	return serveRole(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, "ready")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
}
