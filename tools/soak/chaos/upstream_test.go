package chaos_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// question is a message of a caller: the name of its chat, and its number.
var question = regexp.MustCompile(`chat-[A-Z0-9]+#\d+`)

// upstream is a model whose answers name the question, and which requires that all messages of a
// request are of one chat.
type upstream struct {
	*modeltest.Upstream
	mu    sync.Mutex
	mixed []string // the requests with messages of two chats
}

func startUpstream(t *testing.T, b *bill) *upstream {
	u := &upstream{}
	u.Upstream = modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
		asked := question.FindAllString(string(r.Body), -1)
		if len(asked) == 0 {
			return modeltest.Status(400)
		}
		last := asked[len(asked)-1]
		for _, q := range asked {
			if chatOf(q) != chatOf(last) {
				u.mu.Lock()
				u.mixed = append(u.mixed, fmt.Sprintf("a request to the model has %s and %s", q, last))
				u.mu.Unlock()
			}
		}
		b.add(tokensOf(last), true)
		return modeltest.Stream(modeltest.Usage(model.Usage(tokensOf(last))), modeltest.Pace(5*time.Millisecond), modeltest.Text(strings.SplitAfter(answerTo(last), " ")...))
	})))
	return u
}

// stuck is a model that sends one word and then only pings, at a low cost.
type stuck struct{ open atomic.Int64 }

// ended fails while a request is open.
func (s *stuck) ended(context.Context) error {
	if n := s.open.Load(); n > 0 {
		return fmt.Errorf("%d requests to the model are open", n)
	}
	return nil
}

const firstWord = `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"One"}}

`

// ServeHTTP implements http.Handler.
func (s *stuck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.open.Add(1)
	defer s.open.Add(-1)
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	text := firstWord
	for ping := time.NewTicker(30 * time.Second); ; { // a runtime waits for two minutes
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ping.C:
			text = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
		case <-r.Context().Done():
			return
		}
	}
}

// startStuck starts a stuck model over HTTP/2, whose requests share connections. It returns its URL
// and the file of its certificate.
func startStuck(t *testing.T) (s *stuck, url, certificate string) {
	s = &stuck{}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	certificate = filepath.Join(t.TempDir(), "upstream.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(certificate, block, 0o644)) // runtimes have a user of their own
	return s, server.URL, certificate
}

func chatOf(question string) string {
	name, _, _ := strings.Cut(question, "#")
	return name
}

// answerTo returns the only right answer to a question.
func answerTo(question string) string {
	return "The answer to " + question + " has forty words: " + strings.Repeat("word ", 30) + "end."
}
