package chaos_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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

func startUpstream(t *testing.T) *upstream {
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
		return modeltest.Stream(modeltest.Usage(model.Usage(tokensOf(last))), modeltest.Pace(5*time.Millisecond), modeltest.Text(strings.SplitAfter(answerTo(last), " ")...))
	})))
	return u
}

// oneWord is the reply of a model that sends one word and then nothing.
var oneWord = modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))

// startSecure starts an upstream over HTTP/2, whose requests share connections. It returns the file
// of its certificate.
func startSecure(t *testing.T, reply modeltest.Reply) (u *modeltest.Upstream, certificate string) {
	u = modeltest.New(modeltest.Anthropic, reply)
	server := httptest.NewUnstartedServer(u)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	u.URL = server.URL
	certificate = filepath.Join(t.TempDir(), "upstream.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(certificate, block, 0o644)) // runtimes have a user of their own
	return u, certificate
}

func chatOf(question string) string {
	name, _, _ := strings.Cut(question, "#")
	return name
}

// answerTo returns the only right answer to a question.
func answerTo(question string) string {
	return "The answer to " + question + " has forty words: " + strings.Repeat("word ", 30) + "end."
}
