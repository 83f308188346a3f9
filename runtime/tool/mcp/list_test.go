package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// lists returns the results of tools/list for the given pages.
func lists(pages ...string) func(string, json.RawMessage) string {
	return func(_ string, params json.RawMessage) string {
		var at struct{ Cursor string }
		if err := json.Unmarshal(params, &at); err != nil {
			return err.Error()
		}
		n := len(at.Cursor)
		next := ""
		if n+1 < len(pages) {
			next = fmt.Sprintf(`,"nextCursor":%q`, at.Cursor+"x")
		}
		return `{"tools":[` + pages[n] + `]` + next + `}`
	}
}

func entry(name, rest string) string {
	if rest == "" {
		rest = `"inputSchema":{"type":"object"}`
	}
	return fmt.Sprintf(`{"name":%q,%s}`, name, rest)
}

func TestToolsThatCannotBeOfferedAreLeftOut(t *testing.T) {
	for name, row := range map[string]struct {
		pages []string
		want  []string
		log   string // in the log and in List.LeftOut
	}{
		"in order of names":       {[]string{entry("b", "") + "," + entry("a", ""), entry("_", "")}, []string{"_", "a", "b"}, ""},
		"none":                    {[]string{""}, nil, ""},
		"spaces in the name":      {[]string{entry("fs read", "") + "," + entry("a", "")}, []string{"a"}, `fs read`},
		"a name of other letters": {[]string{entry("größe", "") + "," + entry("a", "")}, []string{"a"}, "größe"},
		"no name": {[]string{entry("", "") + "," + entry("a", "")}, []string{"a"},
			"has a name that the protocol does not allow"},
		"a name of 129 letters": {[]string{entry(strings.Repeat("n", 129), "") + "," + entry("a", "")}, []string{"a"},
			"has a name that the protocol does not allow"},
		"a tool that requires a task": {[]string{
			entry("l", `"execution":{"taskSupport":"required"}`) + "," + entry("a", `"execution":{"taskSupport":"optional"}`),
			entry("b", `"execution":{"taskSupport":"forbidden"}`),
			entry("c", `"execution":7`) + "," + entry("m", `"execution":{"taskSupport":"required"}`),
		}, []string{"a", "b", "c"}, "can only be called as a task"},
		"a name that is there twice": {[]string{entry("a", ""), entry("a", "")}, []string{"a"}, "is listed twice"},
		"a schema of an array": {[]string{entry("l", `"inputSchema":{"type":"array"}`) + "," + entry("a", "")},
			[]string{"a"}, "not of type object"},
		"a schema that nothing fulfils": {[]string{entry("l", `"inputSchema":false`) + "," + entry("a", "")}, []string{"a"},
			"not of type object"},
		"a list of types without object": {[]string{entry("l", `"inputSchema":{"type":["array","null"]}`) + "," + entry("a", "")}, []string{"a"},
			"not of type object"},
		"a type that is none": {[]string{entry("l", `"inputSchema":{"type":7}`) + "," + entry("a", "")}, []string{"a"}, "not of type object"},
		"a schema without a type": {[]string{entry("a", `"inputSchema":{}`) + "," + entry("b", `"title":"B"`) + "," +
			entry("c", `"inputSchema":true`) + "," + entry("d", `"inputSchema":{"type":null}`)}, []string{"a", "b", "c", "d"}, ""},
		"several types": {[]string{entry("a", `"inputSchema":{"type":["object","null"]}`) + "," + entry("b", `"inputSchema":{"type":["object"]}`)},
			[]string{"a", "b"}, ""},
		"a null": {[]string{"null," + entry("a", "")}, []string{"a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var want []string
			for _, v := range row.want {
				want = append(want, "mcp__test__"+v)
			}
			found, err := w.open(raw(t, lists(row.pages...))).Tools(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, names(found.Tools))
			for _, v := range found.Tools {
				require.JSONEq(t, `{"type":"object"}`, string(v.Spec().InputSchema))
			}
			if row.log == "" {
				require.Empty(t, found.LeftOut)
				require.NotContains(t, w.log.String(), "left out")
			} else {
				require.Contains(t, w.log.String(), "tools of an MCP server are left out")
				require.Contains(t, w.log.String(), row.log)
				require.Contains(t, found.LeftOut[0], row.log)
			}
		})
	}
}

// A tool that only the user interface of a server calls is not offered.
func TestToolsOfAppsAreLeftOut(t *testing.T) {
	tools := `{"name":"a","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]}}},` +
		`{"name":"b","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["model","app"]}}},` +
		`{"name":"c","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":"app"}}},{"name":"d","inputSchema":{"type":"object"}}`
	s := newWorld(t).open(raw(t, lists(tools)))
	found, err := s.Tools(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"mcp__test__b", "mcp__test__c", "mcp__test__d"}, names(found.Tools))
	require.Empty(t, found.LeftOut)
}

func TestInstructionsNeedThePermissionOfTheDefinition(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{Instructions: "Look twice."})
	offer(server, "a", answers(func(context.Context, string) (*sdk.CallToolResult, error) { return says("a"), nil }))
	def := overHTTP(web(t, streamable(server)).URL)
	for permitted, want := range map[bool]string{false: "", true: "Look twice."} {
		def.Instructions = permitted
		found, err := newWorld(t).open(def).Tools(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, found.Instructions)
	}
}

// Tools with names that models do not accept are offered under other names, and called under their
// own.
func TestMappedNames(t *testing.T) {
	long := strings.Repeat("n", 100)
	for name, row := range map[string]struct {
		server string
		tools  []string
		want   map[string]string // own names by offered name
	}{
		"a dot":            {"s", []string{"fs.read", "a"}, map[string]string{"mcp__s__a": "a", "mcp__s__fs_read": "fs.read"}},
		"just the length":  {"s", []string{strings.Repeat("n", 56)}, map[string]string{"mcp__s__" + strings.Repeat("n", 56): strings.Repeat("n", 56)}},
		"one letter more":  {"s", []string{strings.Repeat("n", 57)}, map[string]string{"mcp__s__" + strings.Repeat("n", 47) + "_804de3e9": strings.Repeat("n", 57)}},
		"two long ones":    {"s", []string{long, long + "m"}, map[string]string{"mcp__s__" + strings.Repeat("n", 47) + "_4e9d8231": long, "mcp__s__" + strings.Repeat("n", 47) + "_6065b39a": long + "m"}},
		"the name is used": {"s", []string{"fs.read", "fs_read"}, map[string]string{"mcp__s__fs_read": "fs_read", "mcp__s__fs_read_4074bc02": "fs.read"}},
		"two of one name":  {"s", []string{"fs.read", "fs/read"}, map[string]string{"mcp__s__fs_read": "fs.read", "mcp__s__fs_read_96379919": "fs/read"}},
		"a long server":    {strings.Repeat("s", 56), []string{"a", "b.c", "."}, map[string]string{"mcp__" + strings.Repeat("s", 56) + "___": ".", "mcp__" + strings.Repeat("s", 56) + "__a": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var entries []string
			for _, v := range slices.Backward(row.tools) { // the order of the list has no effect
				entries = append(entries, entry(v, ""))
			}
			s, err := w.Open(row.server, raw(t, func(method string, params json.RawMessage) string {
				if method == "tools/list" {
					return lists(strings.Join(entries, ","))(method, params)
				}
				var call struct{ Name string }
				require.NoError(t, json.Unmarshal(params, &call))
				return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, call.Name)
			}), agent.Limits{}, nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			got := map[string]string{}
			for _, v := range list(t, s) {
				own := call(t, v, `{}`).Output
				got[v.Spec().Name] = own
				require.LessOrEqual(t, len(v.Spec().Name), 64)
				full := "mcp__" + row.server + "__" + own
				if v.Spec().Name == full {
					full = ""
				}
				require.Equal(t, full, v.Spec().Original)
			}
			require.Equal(t, row.want, got)
		})
	}
}

func TestListsAreBounded(t *testing.T) {
	page := func(from, n int, rest string) string {
		var entries []string
		for i := range n {
			entries = append(entries, entry(fmt.Sprintf("t%06d", from+i), rest))
		}
		return strings.Join(entries, ",")
	}
	large := fmt.Sprintf(`"inputSchema":{"type":"object","description":%q}`, strings.Repeat("x", 1<<20))
	var many []string
	for i := range 300 {
		many = append(many, page(i, 1, ""))
	}
	var pages atomic.Int32
	for name, row := range map[string]struct {
		result func(string, json.RawMessage) string
		want   int
	}{
		"1,000 tools":                {lists(page(0, 600, ""), page(600, 400, "")), 1000},
		"more of them":               {lists(page(0, 600, ""), page(600, 600, "")), 1000},
		"more than 8 MiB of schemas": {lists(page(0, 9, large)), 7},
		"more than 200 pages":        {lists(many...), 200},
		"a list that leads back": {func(string,
			json.RawMessage) string {
			return `{"tools":[` + page(0, 1, "") + `],"nextCursor":"same"}`
		}, 1},
		"a cursor of any length": {func(_ string,
			p json.RawMessage) string {
			return fmt.Sprintf(`{"tools":[],"nextCursor":"%x"}`, p)
		}, 0},
		"pages of nothing without end": {func(string, json.RawMessage) string {
			return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, pages.Add(1))
		}, 0},
		"a description of many letters": {lists(entry("a", `"description":"`+strings.Repeat("ü", 1<<20)+`"`)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tools := list(t, w.open(raw(t, row.result)))
			require.Len(t, tools, row.want)
			for _, v := range tools {
				require.LessOrEqual(t, len(v.Spec().Description), 16<<10+len("..."))
			}
			if name != "1,000 tools" && row.want != 1 {
				require.Contains(t, w.log.String(), "tools of an MCP server are left out")
			}
			require.Less(t, len(w.log.String()), 10<<10)
		})
	}
}

func TestAnswersAsText(t *testing.T) {
	for name, row := range map[string]struct {
		result string
		want   tool.Result
	}{
		"texts":      {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, tool.Result{Output: "a\nb"}},
		"nothing":    {`{"content":[]}`, tool.Result{}},
		"no content": {`{}`, tool.Result{}},
		"an error":   {`{"content":[{"type":"text","text":"a"}],"isError":true}`, tool.Result{Output: "a", IsError: true}},
		"an image": {`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"text","text":"a"}]}`,
			tool.Result{Output: "[image image/png, 3 bytes]\na", Images: []tool.Image{{MediaType: "image/png", Data: []byte{0, 0, 0}}}}},
		"an image without a type": {`{"content":[{"type":"image","data":"AAAA"}]}`,
			tool.Result{Output: "[image, 3 bytes]", Images: []tool.Image{{Data: []byte{0, 0, 0}}}}},
		"an image of an error": {`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}],"isError":true}`,
			tool.Result{Output: "[image image/png, 3 bytes]", IsError: true, Images: []tool.Image{{MediaType: "image/png", Data: []byte{0, 0, 0}}}}},
		"content that cannot be decoded": {`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"data:image/png;base64,AAAA"},` +
			`{"type":"audio","data":7},{"type":"hologram"},{"type":"text","text":"b","annotations":{"priority":"x"}}],"isError":true}`,
			tool.Result{Output: "a\n[image that cannot be decoded]\n[audio that cannot be decoded]\n[content that cannot be decoded]\n[text that cannot be decoded]", IsError: true}},
		"an image as a resource": {`{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"image/png","blob":"AAAA"}}]}`,
			tool.Result{Output: "[resource file:///a image/png, 3 bytes]", Images: []tool.Image{{MediaType: "image/png", Data: []byte{0, 0, 0}}}}},
		"a sound": {`{"content":[{"type":"audio","mimeType":"audio/wav","data":"AAAA"}]}`,
			tool.Result{Output: "[audio audio/wav, 3 bytes]"}},
		"a link": {`{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`,
			tool.Result{Output: "[resource a file:///a]"}},
		"a text resource": {`{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"inside"}}]}`,
			tool.Result{Output: "inside"}},
		"a binary resource": {`{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"x/y","blob":"AAAA"}}]}`,
			tool.Result{Output: "[resource file:///a x/y, 3 bytes]"}},
		"a text resource in base64": {`{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/csv; charset=utf-8","blob":"YSxi"}}]}`,
			tool.Result{Output: "a,b"}},
		"a type of result that is unknown": {`{"resultType":"task","content":[{"type":"text","text":"a"}]}`,
			tool.Result{Output: `mcp server test: the call failed: the server sent a result of the unknown type "task"`, IsError: true}},
		"a type that is not a text": {`{"resultType":7,"content":[]}`,
			tool.Result{Output: `mcp server test: the call failed: the server sent a result of the unknown type "7"`, IsError: true}},
		"a complete result":  {`{"resultType":"complete","content":[{"type":"text","text":"a"}]}`, tool.Result{Output: "a"}},
		"structured":         {`{"content":[],"structuredContent":{"n":1}}`, tool.Result{Output: `{"n":1}`}},
		"structured, a list": {`{"content":[],"structuredContent":[1,2]}`, tool.Result{Output: `[1,2]`}},
		"both": {`{"content":[{"type":"text","text":"n is 1"}],"structuredContent":{"n":1}}`,
			tool.Result{Output: "n is 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).open(raw(t, func(method string, params json.RawMessage) string {
				if method == "tools/list" {
					return lists(entry("a", ""))(method, params)
				}
				return row.result
			}))
			res := call(t, find(t, s, "a"), `{}`)
			require.Equal(t, row.want, res)
		})
	}
}

// Each block that cannot be decoded takes time: a result with very many is rejected as a whole.
func TestTheRepairOfAResultIsBounded(t *testing.T) {
	blocks := 0
	s := newWorld(t).open(raw(t, func(method string, params json.RawMessage) string {
		if method == "tools/list" {
			return lists(entry("a", ""))(method, params)
		}
		return `{"content":[` + strings.Repeat(`{"type":"hologram"},`, blocks-1) + `{"type":"text","text":"a"}]}`
	}))
	a := find(t, s, "a")
	for _, row := range []struct {
		blocks   int
		repaired bool
	}{{1000, true}, {1001, false}, {400_000, false}} {
		blocks = row.blocks
		require.Equal(t, row.repaired, strings.HasSuffix(call(t, a, `{}`).Output, "[content that cannot be decoded]\na"), blocks)
	}
}
