package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const (
	answerVariable = "AGENTHOST_TEST_ANSWER"

	tokensPerRun = 200
	shortTokens  = 5
	openTokens   = 10 // of a response that hangs
	pace         = 20 * time.Millisecond
)

// upstreamReplies are the selectable responses of the upstream.
var upstreamReplies = map[string]modeltest.Reply{
	"burst": modeltest.Burst(modeltest.Text(tokens(tokensPerRun)...)),
	"short": modeltest.Burst(modeltest.Text(tokens(shortTokens)...)),
	"paced": modeltest.Stream(modeltest.Pace(pace), modeltest.Text(tokens(tokensPerRun)...)),
	"hang":  modeltest.Stream(modeltest.Text(tokens(openTokens)...), modeltest.Hang()),
	// The wait reveals a server that buffers before it flushes.
	"first": modeltest.Stream(modeltest.Text("Once"), modeltest.Wait(5*time.Millisecond), modeltest.Text(" upon a time.")),
}

// tokens returns n pieces of text with about the length of a model's tokens.
func tokens(n int) []string {
	words := []string{"The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", ".\n"}
	list := make([]string, n)
	for i := range list {
		list[i] = words[i%len(words)]
	}
	return list
}

// serveUpstream implements both protocols. In addition, GET /last returns the body of the latest
// request of the Anthropic protocol, and GET /ends?first=N&count=M returns when the requests with
// the marks N to N+M-1 ended, as Unix time in nanoseconds: the head of its response immediately,
// the rest when they have ended.
func serveUpstream() error {
	answer, ok := upstreamReplies[os.Getenv(answerVariable)]
	if !ok {
		return fmt.Errorf("no answer named %q", os.Getenv(answerVariable))
	}
	anthropic := modeltest.New(modeltest.Anthropic, modeltest.Repeat(answer))
	mux := http.NewServeMux()
	mux.Handle("POST /v1/messages", anthropic)
	mux.Handle("POST /v1/chat/completions", modeltest.New(modeltest.OpenAI, modeltest.Repeat(answer)))
	mux.HandleFunc("POST /v1/traces", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	mux.HandleFunc("GET /last", func(w http.ResponseWriter, _ *http.Request) {
		requests := anthropic.Requests()
		_, _ = w.Write(requests[len(requests)-1].Body)
	})
	mux.HandleFunc("GET /ends", func(w http.ResponseWriter, r *http.Request) {
		first, _ := strconv.Atoi(r.FormValue("first"))
		count, _ := strconv.Atoi(r.FormValue("count"))
		_ = http.NewResponseController(w).Flush()
		_ = json.NewEncoder(w).Encode(ends(anthropic.Requests(), first, count))
	})
	return serveRole(mux)
}

// mark is a number in the message of a run by which upstream identifies its request.
func mark(n int) string { return fmt.Sprintf("mark-%d.", n) }

var markPattern = regexp.MustCompile(`mark-(\d+)\.`)

func ends(requests []*modeltest.Request, first, count int) []int64 {
	at := make([]int64, count)
	for _, r := range requests {
		m := markPattern.FindSubmatch(r.Body)
		if m == nil {
			continue
		}
		if n, _ := strconv.Atoi(string(m[1])); first <= n && n < first+count {
			end, _ := r.End()
			at[n-first] = end.UnixNano()
		}
	}
	return at
}
