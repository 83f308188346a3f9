package engine_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Images of a result are sent to a model whose upstream accepts them. Other models receive the text
// that describes them.
func TestImagesOfResults(t *testing.T) {
	png := func(size int) tool.Image { return tool.Image{MediaType: "image/png", Data: make([]byte, size)} }
	for name, row := range map[string]struct {
		images  []tool.Image
		isError bool
		want    int // images that are sent
	}{
		"one":                     {[]tool.Image{png(3)}, false, 1},
		"another type":            {[]tool.Image{{MediaType: "image/svg+xml", Data: []byte("<svg/>")}, png(3)}, false, 1},
		"an empty one":            {[]tool.Image{png(0)}, false, 0},
		"more than eight":         {[]tool.Image{png(1), png(1), png(1), png(1), png(1), png(1), png(1), png(1), png(1)}, false, 8},
		"just the size":           {[]tool.Image{png(3_750_000)}, false, 1},
		"more than the size":      {[]tool.Image{png(3_750_001), png(5)}, false, 1},
		"together more than that": {[]tool.Image{png(2_000_000), png(2_000_000)}, false, 1},
		"of an error":             {[]tool.Image{png(3)}, true, 0},
	} {
		for _, protocol := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
			t.Run(name, func(t *testing.T) {
				look := tool.New(tool.Spec{Name: "look"}, func(context.Context, tool.Call) (tool.Result, error) {
					return tool.Result{Output: "[image]", Images: row.images, IsError: row.isError}, nil
				})
				m, up := upstream(t, protocol, modeltest.Stream(modeltest.ToolCall("t", "look", `{}`)), modeltest.Stream(modeltest.Text("Done.")))
				got := newSetup(m, look).run(t.Context(), t, "")
				require.NoError(t, got.err)
				require.Contains(t, results(got.lines)[0], `"[image]"`, "the event has only the text")
				body := string(up.Requests()[1].Body)
				require.Contains(t, body, "[image]")
				want := row.want
				if protocol == modeltest.OpenAI {
					want = 0
				}
				require.Equal(t, want, strings.Count(body, `"type":"image"`))
				if want == 1 && len(row.images) == 1 {
					require.Contains(t, body, `"source":{"type":"base64","media_type":"image/png","data":"`+
						base64.StdEncoding.EncodeToString(row.images[0].Data)+`"}`)
				}
			})
		}
	}
}

// The results of one response have at most 15 MB of images together.
func TestImagesOfManyResults(t *testing.T) {
	look := tool.New(tool.Spec{Name: "look", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "[image]", Images: []tool.Image{{MediaType: "image/png", Data: make([]byte, 3_750_000)}}}, nil
	})
	var calls []modeltest.Step
	for _, id := range []string{"t1", "t2", "t3", "t4", "t5", "t6"} {
		calls = append(calls, modeltest.ToolCall(id, "look", `{}`))
	}
	m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(calls...), modeltest.Stream(modeltest.Text("Done.")))
	got := newSetup(m, look).run(t.Context(), t, "")
	require.NoError(t, got.err)
	body := string(up.Requests()[1].Body)
	require.Equal(t, 4, strings.Count(body, `"type":"image"`))
	require.Equal(t, 6, strings.Count(body, "[image]"))
}

// A conversation that upstream rejects because of its images continues without them.
func TestImagesAreLeftOutAfterARejection(t *testing.T) {
	look := tool.New(tool.Spec{Name: "look", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "[image]", Images: []tool.Image{{MediaType: "image/png", Data: make([]byte, 100_000)}}}, nil
	})
	m, up := sizeLimited(t, modeltest.Anthropic, 20_000, func(n int) modeltest.Reply {
		if n == 1 {
			return modeltest.Stream(modeltest.ToolCall("t1", "look", `{}`))
		}
		return textReply(n)
	})
	got := newSetup(m, look).run(t.Context(), t, "Look.")
	require.NoError(t, got.err)
	body := string(last(up).Body)
	require.Contains(t, body, "[image]")
	require.NotContains(t, body, `"type":"image"`)
}
