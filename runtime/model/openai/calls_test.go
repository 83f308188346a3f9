package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

// TestToolCalls has the ways in which servers send two calls, a(1) and b(2), and a few that send
// one.
func TestToolCalls(t *testing.T) {
	one := model.Block{Type: model.BlockToolUse, ID: "c1", Name: "a", Input: []byte(`{"n":1}`)}
	two := model.Block{Type: model.BlockToolUse, ID: "c2", Name: "b", Input: []byte(`{"n":2}`)}
	for name, row := range map[string]struct {
		calls []string // one chunk each
		want  []model.Block
	}{
		"as OpenAI does": {[]string{
			`{"index":0,"id":"c1","type":"function","function":{"name":"a","arguments":""}}`,
			`{"index":0,"function":{"arguments":"{\"n\""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
			`{"index":1,"id":"c2","type":"function","function":{"name":"b","arguments":""}}`,
			`{"index":1,"function":{"arguments":"{\"n\":2}"}}`,
		}, []model.Block{one, two}},
		"both in one chunk": {[]string{
			`{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"n\":1}"}},{"index":1,"id":"c2","function":{"name":"b","arguments":"{\"n\":2}"}}`,
		}, []model.Block{one, two}},
		"interleaved": {[]string{
			`{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"n\""}}`,
			`{"index":1,"id":"c2","function":{"name":"b","arguments":"{"}}`,
			`{"index":0,"function":{"arguments":":1}"}}`, `{"index":1,"function":{"arguments":"\"n\":2}"}}`,
		}, []model.Block{one, two}},
		"without an index": {[]string{
			`{"id":"c1","function":{"name":"a","arguments":"{\"n\":"}}`, `{"function":{"arguments":"1}"}}`,
			`{"id":"c2","function":{"name":"b","arguments":"{\"n\":2}"}}`,
		}, []model.Block{one, two}},
		"all with index 0": {[]string{
			`{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"n\":1}"}}`,
			`{"index":0,"id":"c2","function":{"name":"b","arguments":"{\"n\":2}"}}`,
		}, []model.Block{one, two}},
		"id and name repeated": {[]string{
			`{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"n\""}}`,
			`{"index":0,"id":"c1","function":{"name":"a","arguments":":1}"}}`,
		}, []model.Block{one}},
		"id repeated, no index": {[]string{
			`{"id":"c1","function":{"name":"a","arguments":"{\"n\""}}`, `{"id":"c1","function":{"arguments":":1}"}}`,
		}, []model.Block{one}},
		"name repeated, no id": {[]string{
			`{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"n\""}}`, `{"index":0,"function":{"name":"a","arguments":":1}"}}`,
		}, []model.Block{one}},
		"a new id each time": {[]string{
			`{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"n\""}}`, `{"index":0,"id":"x9","function":{"arguments":":1}"}}`,
		}, []model.Block{one}},
		"name after the id": {[]string{
			`{"index":0,"id":"c1","function":{"arguments":"{\"n\""}}`, `{"index":0,"function":{"name":"a","arguments":":1}"}}`,
		}, []model.Block{one}},
		"arguments as an object": {[]string{`{"index":0,"id":"c1","function":{"name":"a","arguments":{"n":1}}}`}, []model.Block{one}},
		"no arguments": {[]string{`{"index":0,"id":"c1","function":{"name":"a","arguments":null}}`}, []model.Block{
			{Type: model.BlockToolUse, ID: "c1", Name: "a", Input: []byte(`{}`)},
		}},
		"not an object": {[]string{`{"index":0,"id":"c1","function":{"name":"a","arguments":"[1"}}`}, []model.Block{
			{Type: model.BlockToolUse, ID: "c1", Name: "a", Input: []byte(`{}`), BadInput: "[1"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var raw strings.Builder
			for _, c := range row.calls {
				raw.WriteString(choice(`"index":0,"delta":{"tool_calls":[` + c + `]}`))
			}
			for _, reason := range []string{"tool_calls", "stop"} {
				got, err := collected(t, raw.String()+finish(reason)+done)
				require.NoError(t, err)
				require.Equal(t, row.want, got.Message.Content)
				require.Equal(t, model.StopToolUse, got.StopReason)
			}
		})
	}
}

func TestCallsWithoutIDGetOne(t *testing.T) {
	got, err := collected(t, choice(`"delta":{"tool_calls":[{"function":{"name":"a","arguments":"{\"n\":1}"}}]}`)+
		choice(`"delta":{"tool_calls":[{"function":{"name":"b","arguments":"{\"n\":"}},{"function":{"arguments":"2}"}}]}`)+finish("stop"))
	require.NoError(t, err)
	calls := got.Message.ToolUses()
	require.Len(t, calls, 2)
	require.NotEmpty(t, calls[0].ID)
	require.NotEmpty(t, calls[1].ID)
	require.NotEqual(t, calls[0].ID, calls[1].ID)
	require.Regexp(t, `^[a-zA-Z0-9]{9}$`, calls[0].ID, "Mistral rejects others when they are sent back")
	require.JSONEq(t, `{"n":2}`, string(calls[1].Input))
}

// TestCallsHaveLimits verifies the limits of calls without a name, which are buffered and produce
// no parts.
func TestCallsHaveLimits(t *testing.T) {
	fragment := func(fields string) string { return choice(`"delta":{"tool_calls":[{` + fields + `}]}`) }
	var many strings.Builder
	for i := range collect.MaxBlocks + 1 {
		many.WriteString(fragment(fmt.Sprintf(`"index":%d,"id":"c%d"`, i, i)))
	}
	long := strings.Repeat("x", 1<<18)
	for name, row := range map[string]struct{ raw, message string }{
		"calls": {many.String(), "upstream sent too many tool calls"},
		"arguments": {strings.Repeat(fragment(`"index":0,"function":{"arguments":"`+long+`"}`), 17),
			"upstream sent too much of tool calls without a name"},
		"ids": {strings.Repeat(fragment(`"index":0,"id":"`+long+`"`), 17), "upstream sent too much of tool calls without a name"},
		"unknown fields": {fragment(`"index":0,"id":"c","function":{"name":"a"},"x":"`+long+`"`) + strings.Repeat(fragment(`"index":0,"y":1`)+fragment(`"index":0,"y":2`), 10),
			"upstream sent too much of unknown fields of tool calls"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := collected(t, row.raw+finish("tool_calls"))
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, model.Code(runvalue.ErrorTypeServer), coded.Code)
			require.Equal(t, row.message, coded.Message)
		})
	}
}
