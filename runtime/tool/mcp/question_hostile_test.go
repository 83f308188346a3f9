package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// rawAsker is a server of protocol 2026-07-28 whose tool ask has any result.
func rawAsker(result *string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		results := map[string]string{
			"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`,
			"tools/list":      `{"resultType":"complete","tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`,
			"tools/call":      *result,
		}
		if results[m.Method] == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, results[m.Method])
	})
}

func elicitation(params string) string {
	return `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":` + params + `}}}`
}

func formOf(schema string) string {
	return elicitation(`{"message":"m","requestedSchema":` + schema + `}`)
}

func urlOf(url string) string {
	text, _ := json.Marshal(url)
	return elicitation(`{"mode":"url","message":"m","url":` + string(text) + `}`)
}

// Requests of a server are bounded and checked. One that a person cannot be asked is an error of
// the tool, and the connection remains.
func TestHostileQuestions(t *testing.T) {
	property := func(s string) string { return formOf(`{"type":"object","properties":{"p":` + s + `}}`) }
	requests := func(n int, key string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%s%d":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object"}}}`, key, i))
		}
		return `{"resultType":"input_required","inputRequests":{` + strings.Join(all, ",") + `}}`
	}
	var result string
	ask := find(t, newWorld(t).open(overHTTP(web(t, rawAsker(&result)).URL)), "ask")
	for name, row := range map[string]struct{ result, want string }{
		"sampling":              {`{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}`, `requests "sampling/createMessage", which is not supported`},
		"roots":                 {`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`, `requests "roots/list", which is not supported`},
		"an unknown request":    {`{"resultType":"input_required","inputRequests":{"a":{"method":"x"}}}`, `requests "x", which is not supported`},
		"no request":            {`{"resultType":"input_required","inputRequests":{"a":null}}`, "which is not supported"},
		"a list of requests":    {`{"resultType":"input_required","inputRequests":[]}`, "its requests cannot be read"},
		"a request twice":       {`{"resultType":"input_required","inputRequests":{"a":null,"a":null}}`, "its requests cannot be read"},
		"a state of a number":   {`{"resultType":"input_required","requestState":7}`, "the call failed"},
		"a long state":          {`{"resultType":"input_required","requestState":"` + strings.Repeat("s", 256<<10+1) + `"}`, "its state has more than 262144 bytes"},
		"many requests":         {requests(17, "k"), "it has more than 16 requests"},
		"a long key":            {requests(1, strings.Repeat("k", 256)), "the name of a request has more than 256 bytes"},
		"an unknown mode":       {elicitation(`{"mode":"paper","message":"m"}`), `the unknown mode "paper"`},
		"a long message":        {elicitation(`{"message":"` + strings.Repeat("m", 16<<10+1) + `","requestedSchema":{"type":"object"}}`), "the message has more than 16384 bytes"},
		"no schema":             {elicitation(`{"message":"m"}`), "the schema cannot be read"},
		"a list":                {formOf(`[]`), "the schema cannot be read"},
		"a string":              {formOf(`{"type":"string"}`), "not that of an object"},
		"a large schema":        {property(`{"type":"string","title":"` + strings.Repeat("t", 64<<10) + `"}`), "the schema has more than 65536 bytes"},
		"a deep schema":         {property(strings.Repeat(`{"not":`, 50) + `{}` + strings.Repeat(`}`, 50)), "too complex"},
		"many values":           {property(`{"type":"string","enum":[` + strings.Repeat(`"",`, 5000) + `""]}`), "too complex"},
		"a reference":           {property(`{"type":"string","$ref":"#"}`), "without references"},
		"a hidden reference":    {property(`{"type":"array","items":{"\u0024ref":"https://evil.example/s"}}`), "without references"},
		"an object in it":       {property(`{"type":"object"}`), `the property "p" of the schema is not a single value`},
		"a property of no type": {property(`true`), `the property "p" of the schema is not a single value`},
		"properties as a list":  {formOf(`{"type":"object","properties":[]}`), "not that of an object"},
		"no url":                {urlOf(""), "not an absolute http or https URL"},
		"a file":                {urlOf("file:///etc/passwd"), "not an absolute http or https URL"},
		"a script":              {urlOf("javascript:alert(1)"), "not an absolute http or https URL"},
		"a url without a host":  {urlOf("https:evil.example"), "not an absolute http or https URL"},
		"a url of a user":       {urlOf("https://bank.example@evil.example/"), "without credentials"},
		"a backslash":           {urlOf(`https://bank.example/\evil`), "characters other than those of a URL"},
		"a bidirectional mark":  {urlOf("https://bank.example/\u202etxt.exe"), "characters other than those of a URL"},
		"a look-alike":          {urlOf("https://b\u0430nk.example/"), "characters other than those of a URL"},
		"a line break":          {urlOf("https://bank.example/\n"), "characters other than those of a URL"},
		"a long url":            {urlOf("https://bank.example/" + strings.Repeat("u", 8<<10)), "the url has more than 8192 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			result = row.result
			res, err := ask.Call(t.Context(), tool.Call{Input: []byte(`{}`), CanAsk: true})
			require.NoError(t, err)
			require.True(t, res.IsError)
			require.Nil(t, res.Question)
			require.Contains(t, res.Output, row.want)
			require.LessOrEqual(t, len(res.Output), 4<<10)
			result = `{"resultType":"complete","content":[{"type":"text","text":"fine"}]}`
			require.Equal(t, "fine", call(t, ask, `{}`).Output)
		})
	}

	result = urlOf("https://bank.example:8443/pay?id=%3C1%3E#top")
	res, err := ask.Call(t.Context(), tool.Call{Input: []byte(`{}`), CanAsk: true})
	require.NoError(t, err)
	require.Equal(t, "https://bank.example:8443/pay?id=%3C1%3E#top", res.Question.URL)
}

// A schema that cannot be validated is an error of the tool.
func TestASchemaThatIsTooExpensive(t *testing.T) {
	result := formOf(`{"type":"object","properties":{"p":{"type":"string","pattern":"` + strings.Repeat(`(a{1000})`, 500) + `"}}}`)
	d := openDesk(t, map[string]agent.MCPServer{"s": overHTTP(web(t, rawAsker(&result)).URL)}, calls("mcp__s__ask", `{}`), done())
	res, err := d.Complete(t.Context(), "helper", wire.RunRequest{Message: "go", Inputs: questions})
	require.NoError(t, err)
	require.Equal(t, "Done.", res.Text)
	require.Contains(t, d.results(t)["t1"], "The call needs an answer to a question: ")
}

// A run that is cancelled after its answer was sent does not send it again.
func TestACancelledAnswer(t *testing.T) {
	received, release := make(chan struct{}, 2), make(chan struct{})
	defer close(release)
	d := openDesk(t, map[string]agent.MCPServer{"s": askerOverHTTP(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if req.Params.InputResponses != nil {
			received <- struct{}{}
			<-release
		}
		return bookSeat(ctx, req)
	})}, calls("mcp__s__ask", `{}`), done())
	waiting := d.ask(t)
	run := "0190a5a8-0000-7000-8000-000000000001"
	ended := make(chan string, 1)
	go func() {
		answer := accept(`{"row":1}`)
		answer.ID = waiting.Pending[0].ID
		res, err := d.Complete(context.WithoutCancel(t.Context()), "helper", wire.RunRequest{
			SessionID: &waiting.SessionID, RunID: &run, Answers: []wire.Answer{answer},
		})
		ended <- fmt.Sprint(res.State, err)
		received <- struct{}{}
	}()
	<-received
	_, err := d.Cancel(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, "cancelled<nil>", <-ended)
	<-received

	_, err = d.try(t, waiting, accept(`{"row":1}`))
	require.ErrorContains(t, err, "Not waiting")
	require.Eventually(t, func() bool {
		_, err = d.Complete(t.Context(), "helper", wire.RunRequest{SessionID: &waiting.SessionID, Message: "and?"})
		return err == nil
	}, long, 10*time.Millisecond)
	require.Contains(t, d.results(t)["t1"], "interrupted")
	require.Empty(t, received)
}
