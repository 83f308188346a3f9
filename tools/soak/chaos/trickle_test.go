package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	trickledAgent = "trickled" // its upstream sends one byte at a time
	stoppedAgent  = "stopped"  // its upstream stops in the middle of an answer
	stopAfter     = 2000       // bytes of a connection, which are in the middle of an answer
)

// startTrickle starts a proxy in front of an upstream, which forwards one byte of a response at a
// time. After limit bytes it forwards nothing, and the connection remains open; 0 is no limit.
func startTrickle(t *testing.T, target string, limit int64) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); _ = listener.Close(); all.Wait() })
	forward := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", strings.TrimPrefix(target, "http://"))
		if err != nil {
			return
		}
		defer server.Close()
		ended, end := context.WithCancel(ctx)
		defer end()
		all.Go(func() { defer end(); _, _ = io.Copy(server, client) })
		all.Go(func() { <-ended.Done(); _ = client.Close(); _ = server.Close() })
		tick := time.NewTicker(50 * time.Microsecond)
		defer tick.Stop()
		for sent := int64(0); limit == 0 || sent < limit; sent++ {
			if _, err := io.CopyN(client, server, 1); err != nil {
				return
			}
			<-tick.C
		}
		<-ended.Done()
	}
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(client) })
		}
	})
	return "http://" + listener.Addr().String()
}

// deployOn deploys an agent with an upstream.
func (in *installation) deployOn(t *testing.T, c *client, name, upstream string) {
	var provider struct{ ID string }
	require.NoError(t, c.call(t.Context(), http.MethodPost, "/api/v1/admin/providers", object{"name": name, "protocol": "anthropic", "baseUrl": upstream, "apiKey": "k"}, &provider))
	require.NoError(t, c.call(t.Context(), http.MethodPost, "/api/v1/admin/agents", object{"name": name, "providerId": provider.ID, "model": "m"}, nil))
	require.NoError(t, c.call(t.Context(), http.MethodPost, "/api/v1/admin/agents/"+name+"/deploy", nil, nil))
	require.NoError(t, in.await(t.Context(), c, name, "running"), in.logs())
}

// An answer that arrives in single bytes is complete. One that stops in the middle ends with a
// cancel, and at last because of its silence; what arrived is stored. Other chats are answered all
// the time, and no request of a model remains open.
func TestTricklingUpstream(t *testing.T) {
	const each = 10
	in := newInstallation(t, 1, false)
	c := in.setUp(t)
	in.deployOn(t, c, trickledAgent, startTrickle(t, in.upstream.URL, 0))
	in.deployOn(t, c, stoppedAgent, startTrickle(t, in.upstream.URL, stopAfter))
	// The limit of silence is two minutes.
	patient, cancel := context.WithTimeout(t.Context(), 2*time.Minute+patience)
	defer cancel()
	begin := time.Now()
	var questions sync.WaitGroup
	var mu sync.Mutex
	statuses := map[string]int{}
	record := func(kind, chat string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			c.fault("%s: %s: %v", kind, chat, err)
		}
	}
	for i := range each {
		questions.Go(func() {
			name := fmt.Sprint("chat-TRICKLED", i)
			chat, err := c.newChat(t.Context(), trickledAgent, name)
			if err == nil {
				_, err = c.askAgent(patient, trickledAgent, chat, name+"#0")
			}
			record("trickled", chat, errors.Join(err, c.stored(t.Context(), trickledAgent, chat, "completed", answerTo(name+"#0"), true)))
		})
		questions.Go(func() {
			name := fmt.Sprint("chat-STOPPED", i)
			chat, err := c.newChat(t.Context(), stoppedAgent, name)
			if err != nil {
				record("stopped", chat, err)
				return
			}
			want := "failed"
			if i > 0 {
				want = "cancelled"
				questions.Go(func() {
					record("cancel", chat, eventually(t.Context(), patience, func(ctx context.Context) error {
						if err := c.stored(ctx, stoppedAgent, chat, "partial", answerTo(name+"#0"), false); err != nil {
							return err
						}
						return c.call(ctx, http.MethodPost, "/api/v1/agents/"+stoppedAgent+"/chat/sessions/"+chat+"/cancel", nil, nil)
					}))
				})
			}
			q, _ := c.askAgent(patient, stoppedAgent, chat, name+"#0") // the error is the status
			mu.Lock()
			statuses[q.status]++
			mu.Unlock()
			record("stopped", chat, c.stored(t.Context(), stoppedAgent, chat, want, answerTo(name+"#0"), false))
		})
	}
	phase(t, c, 5*time.Second)
	questions.Wait()
	require.NoError(t, eventually(t.Context(), patience, func(context.Context) error { return closed(in.upstream.Upstream) }))
	fmt.Println("answers that stopped:", statuses, "the last one after", time.Since(begin).Round(time.Second))
	k := &checker{in: in, c: c}
	for _, name := range []string{trickledAgent, stoppedAgent} {
		require.NoError(t, c.call(t.Context(), http.MethodDelete, "/api/v1/admin/agents/"+name+"/deploy", nil, nil))
		require.NoError(t, in.await(t.Context(), c, name, "not_deployed"))
	}
	findings := k.check(t.Context())
	report(c.journal, nil)
	require.Empty(t, findings, in.logs())
	in.remove(t, k)
}

// stored requires the status of the only answer of a chat, and that its text is the beginning of
// the right one, or all of it.
func (c *client) stored(ctx context.Context, agent, chat, status, text string, all bool) error {
	var list struct{ Items []message }
	if err := c.call(ctx, http.MethodGet, "/api/v1/agents/"+agent+"/chat/sessions/"+chat+"/messages", nil, &list); err != nil {
		return err
	}
	if len(list.Items) != 2 || list.Items[1].Status != status || list.Items[1].Text == "" ||
		!strings.HasPrefix(text, list.Items[1].Text) || all && list.Items[1].Text != text {
		return fmt.Errorf("the chat is %+v instead of %s", list.Items, status)
	}
	return nil
}
