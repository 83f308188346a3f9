package relay_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
)

// A block has the members of its type, in their types.
func TestDecodeBlock(t *testing.T) {
	const result = `{"type":"tool_result","tool_use_id":"i","tool_name":"","output":"o","is_error":true,"duration_ms":0,"truncated":false}`
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n) }
	for in, want := range map[string]string{
		`{"type":"text","text":"a<b","citations":null}`: `{"type":"text","text":"a<b"}`,
		`{"type":"text"}`:                                    `{"type":"text","text":""}`,
		`{"type":"text","text":null}`:                        `{"type":"text","text":""}`,
		`{"type":"thinking","thinking":"a","signature":"s"}`: `{"type":"thinking","thinking":"a"}`,
		`{"type":"tool_use","id":"i","name":"n","input":{"any":[{"x":1e400}]},"x":1}`: `{"type":"tool_use","id":"i","name":"n","input":{"any":[{"x":1e400}]}}`,
		`{"type":"tool_use","input":null}`:                                            `{"type":"tool_use","id":"","name":"","input":{}}`,
		`{"type":"tool_result","tool_use_id":"i","output":"o","is_error":true}`:       result,
		`{"type":"tool_result","tool_use_id":"i","content":"o","is_error":true}`:      result,
		`{"type":"tool_result","tool_use_id":"i","is_error":true,"content":[{"type":"text","text":"o"},{"type":"image","source":{}},{"type":"text","text":[]}]}`: result,
		`{"type":"subagent_message","parent_tool_use_id":"p","content":[{"type":"text","text":"a","x":1},{"type":"later","x":1}]}`:                               `{"type":"subagent_message","parent_tool_use_id":"p","content":[{"type":"text","text":"a"},{"type":"later","x":1}]}`,
		`{"type":"subagent_message"}`:                                                            `{"type":"subagent_message","parent_tool_use_id":"","content":[]}`,
		`{"type":"warning","message":"m","html":{}}`:                                             `{"type":"warning","message":"m"}`,
		`{"type":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":2,"x":1}}`: `{"type":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":2,"post_tokens":0}}`,
		`{"type":"image", "text":{"toString":1}, "source":{"data":"QQ=="}}`:                      `{"type":"image","text":{"toString":1},"source":{"data":"QQ=="}}`,
		`{"type":"later","x":` + nested(999) + `}`:                                               `{"type":"later","x":` + nested(999) + `}`,
	} {
		block, err := relay.DecodeBlock([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, string(block.JSON), in)
		require.Equal(t, want, string(relay.StoredBlocks("[" + in + "]"))[1:len(want)+1])
	}
	for in, want := range map[string]string{
		`7`: "must be an object with a type", `null`: "must be an object with a type", `{}`: "must be an object with a type",
		`{"type":5}`: "must be an object with a type", `{"type":{"toString":1}}`: "must be an object with a type", `{"Type":"text"}`: "must be an object with a type",
		`{"toString":1}`:                                                      "must be an object with a type",
		`{"type":"text","text":{"toString":1}}`:                               "text must be a string, not object",
		`{"type":"text","text":"a","text":"b"}`:                               "text must not occur twice",
		`{"type":"thinking","thinking":["a"]}`:                                "thinking must be a string, not array",
		`{"type":"tool_use","id":7}`:                                          "id must be a string, not number",
		`{"type":"tool_use","input":"{}"}`:                                    "input must be an object",
		`{"type":"tool_use","input":[1]}`:                                     "input must be an object",
		`{"type":"tool_result","output":{"a":1}}`:                             "output must be a string, not object",
		`{"type":"tool_result","is_error":"yes"}`:                             "is_error must be true or false, not string",
		`{"type":"tool_result","content":7}`:                                  "content must be a string or an array of blocks",
		`{"type":"subagent_message","content":"a"}`:                           "content must be an array, not string",
		`{"type":"subagent_message","content":[{"type":"text","text":1}]}`:    "content[0].text must be a string, not number",
		`{"type":"subagent_message","content":[{"type":"subagent_message"}]}`: "content[0].type must not be subagent_message inside of another one",
		`{"type":"warning","message":["m"]}`:                                  "message must be a string, not array",
		`{"type":"compact_boundary","compact_metadata":"x"}`:                  "compact_metadata must be an object, not string",
		`{"type":"later","x":{"a":1,"a":2}}`:                                  "x.a must not occur twice",
		`{"type":"later","x":` + nested(1001) + `}`:                           "nests too deeply",
		`{"type":"tool_use","input":` + nested(1001) + `}`:                    "nests too deeply",
	} {
		_, err := relay.DecodeBlock([]byte(in))
		require.ErrorContains(t, err, want, in)
		stored := string(relay.StoredBlocks(`[` + in + `,{"type":"text","text":"a"},` + in + `]`))
		require.Equal(t, `[{"type":"text","text":"a"},{"type":"warning","message":"A part of this message cannot be displayed."}]`, stored, in)
	}
	for _, in := range []string{`{}`, `[`, `"a"`, `[{]`, `7`, ` `, "\x00"} {
		require.Equal(t, `[{"type":"warning","message":"A part of this message cannot be displayed."}]`, string(relay.StoredBlocks(in)), in)
	}
	for _, text := range []string{``, `a`, `\"`, `\\`, `a\\\"b`, `\\\\`, `"x":1`} {
		block := `{"type":"text","text":` + strconv.Quote(text) + `}`
		require.Equal(t, `[`+block+`]`, string(relay.StoredBlocks(`[`+block+`]`)))
		more := `{"type":"text","text":` + strconv.Quote(text) + `,"more":"}"}`
		require.Equal(t, `[`+block+`]`, string(relay.StoredBlocks(`[`+more+`]`)))
	}
	require.Equal(t, `[{"type":"warning","message":"A part of this message cannot be displayed."}]`, string(relay.StoredBlocks(`[`+strings.Repeat(`7,`, 100_000)+`{"type":"text","text":"a"}]`)))
	require.Equal(t, `[]`, string(relay.StoredBlocks(` [ ] `)))
}

// The blocks of any content are JSON that is decoded to itself.
func FuzzStoredBlocks(f *testing.F) {
	for _, content := range []string{
		`[]`, `[{"type":"text","text":"a\\\""},{"type":"tool_use","input":{"a":[1]}}]`, `[{"type":"tool_result","content":["a"]},7]`, ``, `{`, `[1,`,
		`[{"type":"subagent_message","content":[{"type":"text"},{"type":"subagent_message"}]}]`, "[{\"type\":\"text\",\"text\":\"\xff\"}]", `[{"type":"x","a":"\ud800"}]`,
	} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		stored := relay.StoredBlocks(content)
		require.True(t, json.Valid(stored), "%q", stored)
		require.Equal(t, string(stored), string(relay.StoredBlocks(string(stored))))
		var blocks []struct {
			Type string `json:"type"`
		}
		require.NoError(t, json.Unmarshal(stored, &blocks))
		for _, block := range blocks {
			require.NotEmpty(t, block.Type)
		}
	})
}

func BenchmarkStoredBlocks(b *testing.B) {
	block := `{"type":"text","text":"` + strings.Repeat("some words ", 200) + `"}`
	call := `{"type":"tool_use","id":"toolu_1","name":"Edit","input":{"file_path":"a/b.go","old_string":"a := 1","new_string":"b := 2"}},` +
		`{"type":"tool_result","tool_use_id":"toolu_1","tool_name":"Edit","output":"` + strings.Repeat("a line\\n", 100) + `","is_error":false,"duration_ms":12,"truncated":false}`
	for name, content := range map[string]string{
		"text": "[" + block + "]", "calls": "[" + call + strings.Repeat(","+call, 9) + "," + block + "]",
		"4 MiB": "[" + block + strings.Repeat(","+block, 1900) + "]",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				relay.StoredBlocks(content)
			}
		})
	}
}
