package wire_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The blocks of an event have the members of their types, and no others.
func TestBlocksDecode(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001)
	for in, want := range map[string]string{
		`{"type":"text","text":"a","html":{"x":1}}`:          `{"type":"text","text":"a"}`,
		`{"text":"a\u003cb","type":"text"}`:                  `{"type":"text","text":"a<b"}`,
		`{"type":"text"}`:                                    `{"type":"text","text":""}`,
		`{"type":"text","text":{"toString":1}}`:              ``,
		`{"type":"text","Text":"a"}`:                         `{"type":"text","text":""}`,
		`{"type":{"toString":1}}`:                            ``,
		`{"type":"thinking","thinking":"a","signature":"s"}`: `{"type":"thinking","thinking":"a"}`,
		`{"type":"thinking","thinking":["a"]}`:               ``,
		`{"type":"tool_use","id":"i","name":"n","input":{"a": [1, {"b":1e400}]},"vnode":1}`: `{"type":"tool_use","id":"i","name":"n","input":{"a":[1,{"b":1e400}]}}`,
		`{"type":"tool_use","id":"i","name":"n","input":[1]}`:                               `{"type":"tool_use","id":"i","name":"n","input":{}}`,
		`{"type":"tool_use","id":"i","name":"n","input":` + deep + `}`:                      `{"type":"tool_use","id":"i","name":"n","input":{}}`,
		`{"type":"tool_use","id":7,"name":"n","input":{}}`:                                  ``,
		`{"type":"later","text":"a"}`:                                                       ``,
		`7`:                                                                                 ``,
		`null`:                                                                              ``,
	} {
		var got wire.Blocks
		err := got.Decode([]byte(`{"message":{"content":[`+in+`,{"type":"text","text":"end"}]}}`), 10)
		require.NoError(t, err, in)
		blocks := []json.RawMessage{json.RawMessage(`{"type":"text","text":"end"}`)}
		if want != "" {
			blocks = slices.Insert(blocks, 0, json.RawMessage(want))
		}
		require.Equal(t, blocks, got.Blocks, in)
	}
}

// A member that occurs twice is an error, in every object: other programs take another one of them.
func TestMembersOccurOnce(t *testing.T) {
	for _, in := range []string{`{"type":"text","text":"a","text":"b"}`, `{"type":"tool_use","input":{"a":[{"b":1,"b":2}]}}`} {
		data := []byte(`{"message":{"content":[` + in + `]}}`)
		err := new(wire.Blocks).Decode(data, 10)
		require.ErrorContains(t, err, "must not occur twice", in)
		_, err = wire.DecodeEvent("assistant", data)
		require.ErrorContains(t, err, "must not occur twice", in)
	}
	_, err := wire.DecodeEvent("result", []byte(`{"is_error":true,"is_error":false}`))
	require.ErrorContains(t, err, "is_error must not occur twice")
	p, err := wire.DecodeEvent("result", []byte(`{"Is_Error":true}`))
	require.NoError(t, err)
	require.False(t, p.(*wire.Result).IsError)
}

func BenchmarkBlocksDecode(b *testing.B) {
	for name, content := range map[string]string{
		"text":  `{"type":"text","text":"` + strings.Repeat("some words ", 200) + `"}`,
		"calls": strings.Repeat(`{"type":"tool_use","id":"toolu_1","name":"Edit","input":{"file_path":"a/b.go","old_string":"a := 1","new_string":"b := 2"}},`, 7) + `{"type":"text","text":"Done."}`,
	} {
		data := []byte(`{"type":"assistant","uuid":"u","session_id":"s","parent_tool_use_id":null,"message":{"role":"assistant","content":[` + content + `],"model":"m","stop_reason":"end_turn"},"usage":{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := new(wire.Blocks).Decode(data, 1024); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// blocksOf decodes an assistant event without cutting a text.
func blocksOf(data []byte, most int) (out wire.Blocks, err error) {
	var in struct {
		ParentToolUseID *string `json:"parent_tool_use_id"`
		Message         struct {
			Model   string            `json:"model"`
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
		Usage wire.Usage `json:"usage"`
	}
	if err := jsonlimit.Unmarshal(data, &in); err != nil {
		return wire.Blocks{}, err
	}
	out.ParentToolUseID, out.Model, out.Usage = in.ParentToolUseID, in.Message.Model, in.Usage
	for _, raw := range in.Message.Content[:min(len(in.Message.Content), most)] {
		var block wire.Block
		if jsonlimit.Unmarshal(raw, &block) != nil || !slices.Contains([]string{wire.PartialText, wire.PartialThinking, wire.PartialToolUse}, block.Type) {
			continue
		}
		if len(block.Input) > 0 {
			var input bytes.Buffer
			if err := json.Compact(&input, block.Input); err != nil {
				return wire.Blocks{}, err
			}
			if block.Input = input.Bytes(); block.Input[0] != '{' {
				block.Input = nil
			}
		}
		again, err := block.MarshalJSON()
		if err != nil {
			return wire.Blocks{}, err
		}
		out.Blocks = append(out.Blocks, again)
		if block.Type == wire.PartialText {
			out.Text += block.Text
		}
	}
	return out, nil
}

// FuzzBlocksDecode compares the blocks of an event, which are in some cases decoded without a text,
// with those of the whole event.
func FuzzBlocksDecode(f *testing.F) {
	const text = `{"type":"text","text":"a\"b\n漢"}`
	for _, content := range []string{
		text, text + `,` + text, ` ` + text + ` `, `{"type":"text","text":"` + strings.Repeat("long ", 1000) + `"}`,
		`{"type":"tool_use","id":"t","name":"n","input":` + text + `},` + text, `{"type":"tool_use","input":{"content":[` + text + `]}}`,
		`{"type":"thinking","thinking":"{\"type\":\"text\",\"text\":\"x\"}"},` + text, `{"type":"text","text":"a","text":"b"},` + text,
		`"\u0000",` + text, `{"type":"text","text":"\u0000"},` + text, `null,` + text + `,1,"x",{}`, `[` + text + `],` + text,
		`"a\` + text, `"a` + text + `"`, `{"type":"text","text":"\u00e9"},` + text, "{\"type\":\"text\",\"text\":\"\xff\"}," + text,
		`{"type":"text","text":"a"`, `{"type":"text","text":"a"]`, `{"type":"text","text":", "}"`, text + `]}},{"x":[`, `{"type":"later"},` + text, `{"type":"text","text":""}`,
	} {
		f.Add([]byte(`{"type":"assistant","message":{"role":"assistant","content":[`+content+`],"model":"m"},"usage":{"input_tokens":1}}`), 1024)
		f.Add([]byte(`{"x":[`+content+`],"message":{"content":[`+content+`],"y":`+text+`},"parent_tool_use_id":"p"}`), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, most int) {
		want, wantErr := blocksOf(data, max(most, 0))
		var got wire.Blocks
		err := got.Decode(data, max(most, 0))
		require.Equal(t, wantErr == nil, err == nil)
		require.Equal(t, want, got)
	})
}

// FuzzResultDecodeOutcome compares a result event, whose text is not decoded, with one whose text
// is.
func FuzzResultDecodeOutcome(f *testing.F) {
	for _, text := range []string{`"done"`, `"a\"b\n漢"`, `""`, `null`, `1`, `"`, "\"\xff\"", `"\u00e9"`, `{"result":"x"}`, `"x","y":{"result":"z"}`, `"x","result":"y"`} {
		f.Add([]byte(`{"type":"result","subtype":"success","usage":{"input_tokens":1},"result":` + text + `,"permission_denials":[{"reason":"no"}]}`))
		f.Add([]byte(`{"a\"result":` + text + `,"errors":["x"]}`))
		f.Add([]byte(`{"errors":["a"result":` + text + `]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want struct {
			wire.Result

			Text json.RawMessage `json:"result"`
		}
		wantErr := jsonlimit.Unmarshal(data, &want)
		var got wire.Result
		err := got.DecodeOutcome(data)
		require.Equal(t, wantErr == nil, err == nil)
		if err == nil {
			require.Equal(t, want.Result, got)
		}
	})
}

// The input of a call may have a member with the name of the text that is not decoded.
func TestDecodeOutcomeKeepsInputs(t *testing.T) {
	pending := `"pending":[{"id":"i","kind":"approval","tool_name":"t","tool_use_id":"u","input":{"result":"x"},"executed":"\u001b[2J"}]`
	for _, data := range []string{`{` + pending + `,"result":"done"}`, `{"result":"done",` + pending + `}`} {
		var got wire.Result
		require.NoError(t, got.DecodeOutcome([]byte(data)))
		require.JSONEq(t, `{"result":"x"}`, string(got.Pending[0].Input), data)
		require.Equal(t, "\x1b[2J", got.Pending[0].Executed)
		require.Nil(t, got.Result)
	}
}
