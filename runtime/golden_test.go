package runtime_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/sse"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// modelURL is the address in definitions. The server of a test handles its requests.
const modelURL = "https://model.example"

// TestConversations compares complete conversations with the files in testdata/conversations: the
// requests of the client, the requests to the model, its responses, and the responses to the
// client.
func TestConversations(t *testing.T) {
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			got := c.record(t)
			path := filepath.Join("testdata", "conversations", c.name+".txt")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, got, 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "go test ./runtime -run Conversations -update rewrites it")
		})
	}
}

// Every golden file belongs to a conversation.
func TestConversationFilesAreComplete(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*")
	require.NoError(t, err)
	var want []string
	for _, c := range conversations {
		want = append(want, filepath.Join("testdata", "conversations", c.name+".txt"))
	}
	require.ElementsMatch(t, want, files)
}

// record runs a conversation and records it.
func (c *conversation) record(t *testing.T) []byte {
	protocol := c.protocol
	if protocol == "" {
		protocol = modeltest.Anthropic
	}
	up := modeltest.Start(t, protocol, c.replies...)
	definition := strings.ReplaceAll(c.agents, modelURL, strings.TrimSuffix(up.URL, "/v1"))
	file, err := agent.Parse("agents.yaml", []byte(definition), nil)
	require.NoError(t, err)

	on := &tape{cwd: t.TempDir(), full: c.full}
	on.text.WriteString(c.about + "\n")
	on.section("agents.yaml", c.agents)
	for _, f := range c.files {
		path := filepath.Join(on.cwd, f.path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(f.text), 0o600))
		on.section("file "+f.path, f.text)
	}
	calls := &recorder{next: &http.Transport{}}
	t.Cleanup(calls.next.CloseIdleConnections)
	b := serve(t, up, func(cfg *runtime.Config) {
		cfg.Agents, cfg.CWD, cfg.Limits = file.Agents, on.cwd, file.Limits
		cfg.HTTPClient = &http.Client{Transport: calls}
		cfg.OpenMCP = func(string, agent.MCPServer, agent.Limits, tool.Confiner) (tool.Server, error) { return weather(), nil }
	})
	for _, a := range file.Agents {
		if len(a.MCPServers) > 0 { // they connect when the runtime starts
			require.Eventually(t, func() bool {
				return strings.Contains(b.do(t, "GET", "/v1/agents/"+a.ID, "").body, `"status":"connected"`)
			}, time.Minute, time.Millisecond)
		}
	}
	for i := range c.runs {
		c.runs[i].lead(t, b, on, calls, fmt.Sprintf("run %d", i+1))
	}
	return on.bytes()
}

// lead executes one run until it ends or is cancelled.
func (r *leg) lead(t *testing.T, b *bench, on *tape, calls *recorder, name string) {
	on.section(name+": POST /v1/agents/helper/runs", r.accept+r.body)
	body, headers := r.body, []string{}
	if strings.Contains(body, "SESSION-1") {
		body = strings.ReplaceAll(body, "SESSION-1", on.first(`"session_id":"(`+uuid+`)"`))
	}
	if r.accept != "" {
		headers = []string{"Accept", "application/json"}
	}
	res := b.request(t.Context(), t, "POST", runs, body, headers...)
	defer res.Body.Close()
	var raw bytes.Buffer
	sent := io.TeeReader(res.Body, &raw)
	cancelled := ""
	for ev, err := range sse.NewDecoder(sent).Events() {
		if r.accept != "" {
			break
		}
		require.NoError(t, err)
		if r.cancelAt == ev.Type && cancelled == "" {
			answer := b.do(t, "POST", "/v1/runs/"+res.Header.Get("X-Run-ID")+"/cancel", "")
			cancelled = fmt.Sprintf("%d\n\n%s", answer.status, answer.body)
		}
	}
	_, err := io.Copy(io.Discard, sent)
	require.NoError(t, err)
	for _, made := range calls.take() {
		on.call(t, made)
	}
	if cancelled != "" {
		on.section(name+": POST /v1/runs/RUN/cancel, on the event "+r.cancelAt, cancelled)
	}
	on.section(name+": what the caller gets",
		fmt.Sprintf("%d %s\n\n%s", res.StatusCode, res.Header.Get("Content-Type"), raw.String()))
}

// tape is the record of a conversation.
type tape struct {
	text  bytes.Buffer
	cwd   string
	full  bool // with the complete definitions of the built-in tools
	calls int
}

// section appends a part of the conversation as a file of the txtar format.
func (t *tape) section(heading, text string) {
	fmt.Fprintf(&t.text, "\n-- %s --\n%s\n", heading, strings.TrimRight(text, "\n"))
}

// call records one request to the model and its response.
func (t *tape) call(tb testing.TB, c *call) {
	t.calls++
	text := ""
	for _, name := range []string{"Authorization", "X-Api-Key", "Anthropic-Version"} {
		if value := c.header.Get(name); value != "" {
			text += strings.ToLower(name) + ": " + value + "\n"
		}
	}
	t.section(fmt.Sprintf("upstream request %d: %s %s", t.calls, c.method, c.path), text+"\n"+pretty(tb, c.request, !t.full))
	t.section(fmt.Sprintf("upstream answer %d", t.calls), fmt.Sprintf("%d %s\n\n%s", c.status, c.kind, c.answer.String()))
}

func (t *tape) first(pattern string) string {
	return string(regexp.MustCompile(pattern).FindSubmatch(t.text.Bytes())[1])
}

const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// numbered matches ids that are different in each run of the test, with their keys.
var numbered = regexp.MustCompile(`"(runId|session_id|sessionId|uuid)":"(` + uuid + `)"`)

var times = regexp.MustCompile(`"(duration_ms|durationMs)":\d+`)

// bytes returns the conversation. Values that differ between runs are replaced by names.
func (t *tape) bytes() []byte {
	text := strings.ReplaceAll(t.text.String(), t.cwd, "/srv/work")
	kinds := map[string]string{"runId": "RUN", "session_id": "SESSION", "sessionId": "SESSION", "uuid": "MESSAGE"}
	count, seen := map[string]int{}, map[string]bool{}
	for _, m := range numbered.FindAllStringSubmatch(text, -1) {
		if kind, id := kinds[m[1]], m[2]; !seen[id] {
			seen[id] = true
			count[kind]++
			text = strings.ReplaceAll(text, id, fmt.Sprintf("%s-%d", kind, count[kind]))
		}
	}
	return []byte(times.ReplaceAllString(text, `"$1":0`))
}

// call is one request to the model and its response.
type call struct {
	method, path string
	header       http.Header
	request      []byte
	status       int
	kind         string
	answer       bytes.Buffer
}

// recorder is a transport that records the calls of the model.
type recorder struct {
	next *http.Transport

	mu    sync.Mutex // guards calls
	calls []*call
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body.Close()
	sent := req.Clone(req.Context())
	sent.Body = io.NopCloser(bytes.NewReader(body))
	c := &call{method: req.Method, path: req.URL.Path, header: req.Header, request: body}
	r.mu.Lock()
	r.calls = append(r.calls, c)
	r.mu.Unlock()
	res, err := r.next.RoundTrip(sent)
	if err == nil {
		c.status, c.kind = res.StatusCode, res.Header.Get("Content-Type")
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(res.Body, &c.answer), res.Body}
	}
	return res, err
}

// take returns the calls so far. No call may be in progress.
func (r *recorder) take() []*call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// pretty returns the body of a request with a line for each value. If brief, it replaces the
// definitions of the built-in tools by their names, because they are long and in every request.
func pretty(tb testing.TB, body []byte, brief bool) string {
	tb.Helper()
	var tools struct{ Tools json.RawMessage }
	require.NoError(tb, json.Unmarshal(body, &tools))
	if brief && tools.Tools != nil {
		body = bytes.Replace(body, tools.Tools, briefly(tb, tools.Tools), 1)
	}
	var out bytes.Buffer
	require.NoError(tb, json.Indent(&out, body, "", "  "))
	return out.String()
}

// briefly replaces adjacent built-in tools by one string.
func briefly(tb testing.TB, tools json.RawMessage) []byte {
	var list, short []json.RawMessage
	require.NoError(tb, json.Unmarshal(tools, &list))
	var names []string
	flush := func() {
		if len(names) > 0 {
			short = append(short, fmt.Appendf(nil, "%q", strings.Join(names, ", ")+": in full in all-tools.txt"))
		}
		names = nil
	}
	for _, raw := range list {
		var t struct {
			Name     string
			Function struct{ Name string }
		}
		require.NoError(tb, json.Unmarshal(raw, &t))
		if name := t.Name + t.Function.Name; builtIn[name] {
			names = append(names, name)
		} else {
			flush()
			short = append(short, raw)
		}
	}
	flush()
	out, err := json.Marshal(short)
	require.NoError(tb, err)
	return out
}

var builtIn = map[string]bool{
	"Read": true, "Write": true, "Edit": true, "Glob": true, "Grep": true, "Bash": true, "WebFetch": true, "TodoWrite": true,
	"Skill": true,
}
