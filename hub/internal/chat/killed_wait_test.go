package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// counting is a runtime in its own process, behind a proxy. Its approved call notes each time that
// it runs, and waits for a file.
type counting struct {
	*httptest.Server
	t       *testing.T
	dir     string
	up      *modeltest.Upstream
	process *process
	runtime atomic.Pointer[url.URL]
	holds   atomic.Bool   // requests of runs
	cuts    atomic.Bool   // the ends of runs that wait
	held    chan struct{} // a request
	result  chan struct{} // opens the answer to the result of the call
}

func startCounting(t *testing.T) *counting {
	t.Helper()
	c := &counting{t: t, dir: t.TempDir(), held: make(chan struct{}, 1), result: make(chan struct{})}
	c.up = modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("I run."), modeltest.ToolCall("t1", "Bash", `{"command":"echo ran >> ran; while [ ! -e go ]; do sleep 0.02; done"}`)),
		modeltest.Stream(modeltest.Text("Do"), modeltest.Gate(c.result), modeltest.Text("ne.")),
		modeltest.Repeat(modeltest.Stream(modeltest.Text("More."))))
	c.start()
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.holds.Load() && strings.HasSuffix(r.URL.Path, "/runs") {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise, the context does not end with the connection
			c.held <- struct{}{}
			<-r.Context().Done()
			return
		}
		cut := func(res *http.Response) error {
			if c.cuts.Load() {
				res.Body = cutBody{res.Body, res.Request.Context(), c.held}
			}
			return nil
		}
		forward(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(c.runtime.Load()) }, FlushInterval: -1, ModifyResponse: cut}, w, r)
	}))
	t.Cleanup(func() {
		c.write("go")
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

// cutBody is the response to a run without its end, which the runtime has sent.
type cutBody struct {
	io.ReadCloser

	ctx  context.Context
	held chan<- struct{}
}

func (b cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !bytes.Contains(p[:n], []byte("input_required")) {
		return n, err
	}
	b.held <- struct{}{}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// start starts the runtime, which has the state of the one before.
func (c *counting) start() {
	c.t.Helper()
	c.process = startRole(c.t, "runtime", c.up.URL, c.dir)
	at, err := url.Parse(c.process.url)
	require.NoError(c.t, err)
	c.runtime.Store(at)
}

func (c *counting) write(name string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), nil, 0o600))
}

// ran returns how often the call has run.
func (c *counting) ran() int {
	text, err := os.ReadFile(filepath.Join(c.dir, "ran"))
	if !os.IsNotExist(err) {
		require.NoError(c.t, err)
	}
	return bytes.Count(text, []byte("ran\n"))
}

func (c *counting) awaitCall() {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.ran() == 1 }, patience, 5*time.Millisecond)
}

func afterCall(c *counting) {
	c.write("go")
	c.up.Await(c.t, 2)
}

// A hub is killed after it has stored an approval: before the runtime has the run, while the call
// runs, after its result, and after a part of the answer was stored. The call runs at most once,
// and the user sees what happened, also if it sends the approval again.
func TestAHubThatIsKilledAfterAnApproval(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		role   string            // of the hub
		reach  func(c *counting) // the moment
		ran    int               // before the approval is sent again
		status string            // after it is sent again
		told   string            // to the model
	}{
		"before the run":  {lateHub, func(c *counting) { <-c.held }, 0, "completed", "no output"},
		"during the call": {lateHub, func(c *counting) { c.awaitCall() }, 1, "failed", "interrupted"},
		"after the call":  {lateHub, afterCall, 1, "failed", "no output"},
		"after a part":    {"hub", afterCall, 1, "partial", "no output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, database string) {
				c := startCounting(t)
				hub := startRole(t, row.role, c.URL, database) // on SQLite, it removes the hubs before it
				s := open(t, database, quiet, func(c *config) { c.lease = time.Second })
				s.endpoint.Store(&deployment.Endpoint{URL: c.URL, AgentID: "helper"})
				ada := s.ada()
				path := session(ada)
				pending := ask(t, ada, path)
				c.holds.Store(row.ran == 0)
				approve := answers(pending, object{"decision": "approve"})
				data, err := json.Marshal(background(approve))
				require.NoError(t, err)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					res, err := http.Post(hub.url+path+"/messages", "application/json", bytes.NewReader(data))
					if err == nil { // it is killed before or after the response
						_ = res.Body.Close()
					}
				}()
				row.reach(c)
				if row.role != lateHub {
					stored := `SELECT COUNT(*) FROM chat_messages WHERE status = 'partial' AND started`
					require.Eventually(t, func() bool { return s.number(stored) == 1 }, patience, 20*time.Millisecond)
				}
				require.NoError(t, syscall.Kill(hub.pid, syscall.SIGKILL))
				<-sent
				c.holds.Store(false)
				before := messages(ada, path)[1]
				require.Equal(t, "partial", before["status"])
				require.Equal(t, []any{"approve", "ada"}, []any{blocks(before, "answered")[0]["decision"], blocks(before, "answered")[0]["user_name"]})
				require.Empty(t, ada.Get(approvals).Items())
				require.Equal(t, row.ran, c.ran())
				require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM hubs`) == 1 }, patience, 20*time.Millisecond)

				c.write("go")
				close(c.result)
				again := ada.Post(path+"/messages", background(approve))
				require.Equal(t, row.ran == 0, again.Status == http.StatusAccepted, again.Text) // or 200: the runtime rejects a run that it had
				after := awaits(t, ada, path, row.status)
				require.Equal(t, before["runId"], after["runId"])
				require.Equal(t, 1, c.ran())
				require.Len(t, blocks(after, "answered"), 1)
				require.Equal(t, "completed", last(say(t, ada, path, "and?")))
				require.Equal(t, 1, c.ran())
				all := c.up.Requests()
				require.Contains(t, string(all[len(all)-1].Body), row.told)
				s.sizes(s.stored()...)
			}, series...)
		})
	}
}

// A hub is killed after the runtime has stored that a call waits, and before the hub has. Nobody
// can approve the call, and it does not run.
func TestAHubThatIsKilledBeforeItStoresAWait(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database string) {
		c := startCounting(t)
		c.cuts.Store(true)
		hub := startRole(t, "hub", c.URL, database)
		s := open(t, database, quiet, func(c *config) { c.lease = time.Second })
		s.endpoint.Store(&deployment.Endpoint{URL: c.URL, AgentID: "helper"})
		ada := s.ada()
		path := session(ada)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			res, err := http.Post(hub.url+path+"/messages", "application/json", strings.NewReader(`{"message":"go","inputs":["approval"]}`))
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}()
		<-c.held
		require.NoError(t, syscall.Kill(hub.pid, syscall.SIGKILL))
		<-sent
		c.cuts.Store(false)
		require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM hubs`) == 1 }, patience, 20*time.Millisecond)
		close(c.result)
		require.Equal(t, "partial", messages(ada, path)[1]["status"])
		require.Empty(t, ada.Get(approvals).Items())
		require.Equal(t, "completed", last(say(t, ada, path, "and?")))
		require.Zero(t, c.ran())
		s.sizes(s.stored()...)
	}, series...)
}

// A runtime is killed while an approved call runs. The user sees that its answer is lost, and the
// next run tells the model that the outcome is unknown.
func TestARuntimeThatIsKilledDuringAnApprovedCall(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, database string) {
		c := startCounting(t)
		s := open(t, database)
		s.endpoint.Store(&deployment.Endpoint{URL: c.URL, AgentID: "helper"})
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		approve := answers(pending, object{"decision": "approve"})
		ada.Post(path+"/messages", background(approve)).Want(http.StatusAccepted)
		c.awaitCall()
		require.NoError(t, syscall.Kill(c.process.pid, syscall.SIGKILL))
		after := awaits(t, ada, path, "failed")
		require.Contains(t, after["error"].(object)["message"], "connection to the runtime")
		require.Equal(t, "ada", blocks(after, "answered")[0]["user_name"])
		require.Empty(t, ada.Get(approvals).Items())
		c.start()
		require.Equal(t, "failed", ada.Post(path+"/messages", approve).Want(http.StatusOK)["status"])
		close(c.result)
		require.Equal(t, "completed", last(say(t, ada, path, "and?")))
		all := c.up.Requests()
		require.Contains(t, string(all[len(all)-1].Body), "its outcome is unknown")
		require.Equal(t, 1, c.ran())
		require.Equal(t, after, messages(ada, path)[1])
	}, series...)
}
