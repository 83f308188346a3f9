package engine_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// picture returns a PNG of that many pixels, with zeros at the end that make it at least size bytes
// long. Decoders ignore them.
func picture(t *testing.T, width, height, size int) tool.Image {
	t.Helper()
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, width, height))))
	return tool.Image{MediaType: "image/png", Data: append(data.Bytes(), make([]byte, max(0, size-data.Len()))...)}
}

// Images of a result are sent to models of both protocols, in addition to the text that describes
// them.
func TestImagesOfResults(t *testing.T) {
	png := func(size int) tool.Image { return picture(t, 1, 1, size) }
	named := func(mediaType string, v tool.Image) tool.Image { v.MediaType = mediaType; return v }
	webp := append([]byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00"), make([]byte, 14)...)
	for name, row := range map[string]struct {
		images  []tool.Image
		isError bool
		want    int // images that are sent
	}{
		"one":                     {[]tool.Image{png(3)}, false, 1},
		"another type":            {[]tool.Image{{MediaType: "image/svg+xml", Data: []byte("<svg/>")}, png(3)}, false, 1},
		"another, as a PNG":       {[]tool.Image{{MediaType: "image/png", Data: []byte("<svg/>")}, png(3)}, false, 1},
		"a PNG as a JPEG":         {[]tool.Image{named("image/jpeg", png(3))}, false, 1},
		"a PNG without a type":    {[]tool.Image{named("", png(3))}, false, 1},
		"a WebP":                  {[]tool.Image{{Data: webp}}, false, 1},
		"the beginning of a PNG":  {[]tool.Image{{MediaType: "image/png", Data: png(3).Data[:20]}}, false, 0},
		"8,000 pixels":            {[]tool.Image{picture(t, 8000, 1, 0), picture(t, 1, 8000, 0)}, false, 2},
		"8,001 pixels":            {[]tool.Image{picture(t, 8001, 1, 0), picture(t, 1, 8001, 0), png(3)}, false, 1},
		"an empty one":            {[]tool.Image{{MediaType: "image/png"}}, false, 0},
		"more than eight":         {[]tool.Image{png(1), png(1), png(1), png(1), png(1), png(1), png(1), png(1), png(1)}, false, 8},
		"just the size":           {[]tool.Image{png(3_750_000)}, false, 1},
		"more than the size":      {[]tool.Image{png(3_750_001), png(5)}, false, 1},
		"together more than that": {[]tool.Image{png(2_000_000), png(2_000_000)}, false, 1},
		"of an error":             {[]tool.Image{png(3)}, true, 0},
	} {
		protocols := []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI}
		if strings.Contains(name, "size") || strings.Contains(name, "together") {
			protocols = protocols[:1] // the sizes are limited before the protocol encodes the images
		}
		for _, protocol := range protocols {
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
				kind, form := `"type":"image"`, `"source":{"type":"base64","media_type":"image/png","data":"%s"}`
				if protocol == modeltest.OpenAI {
					kind, form = `"type":"image_url"`, `"image_url":{"url":"data:image/png;base64,%s"}`
				}
				require.Equal(t, row.want, strings.Count(body, kind))
				if row.want == 1 && len(row.images) == 1 && name != "a WebP" {
					require.Contains(t, body, fmt.Sprintf(form, base64.StdEncoding.EncodeToString(row.images[0].Data)))
				}
			})
		}
	}
}

// The results of one response have at most 15 MB of images together.
func TestImagesOfManyResults(t *testing.T) {
	look := tool.New(tool.Spec{Name: "look", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "[image]", Images: []tool.Image{picture(t, 1, 1, 3_750_000)}}, nil
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

// A conversation that is too large because of its images continues without them.
func TestImagesOfALongConversationAreLeftOut(t *testing.T) {
	look := tool.New(tool.Spec{Name: "look", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "[image]", Images: []tool.Image{picture(t, 1, 1, 100_000)}}, nil
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

// A conversation that upstream rejects because of an image continues without images, and so do the
// later runs of its session. A request that is rejected for another reason is not repeated.
func TestImagesThatUpstreamRejectsAreLeftOut(t *testing.T) {
	rejection := func(status int, message string) modeltest.Reply {
		return modeltest.Raw(status, "application/json", fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, message))
	}
	for name, row := range map[string]struct {
		reply    modeltest.Reply // to the second request
		requests int             // of the first run
		fails    bool
	}{
		"an incomplete image":        {rejection(400, "Could not process image"), 3, false},
		"many large images":          {rejection(400, "messages.0.content.0.tool_result.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"), 3, false},
		"a server that accepts none": {rejection(400, "unknown variant `image`, expected `text`"), 3, false},
		"a server of another kind":   {rejection(422, "Image input is not supported"), 3, false},
		"a server of texts":          {rejection(400, "'messages.3' : for 'role:user' the following must be satisfied[('messages.3.content' : content must be a string)]"), 3, false},
		"each time":                  {modeltest.Repeat(rejection(400, "Could not process image")), 3, true},
		"another reason":             {rejection(400, "no"), 2, true},
		"another status":             {rejection(500, "no image"), 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			look := tool.New(tool.Spec{Name: "look", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{Output: "[image]", Images: []tool.Image{picture(t, 1, 1, 0)}}, nil
			})
			m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "look", `{}`), modeltest.ToolCall("t2", "look", `{}`)),
				row.reply, modeltest.Repeat(modeltest.Stream(modeltest.Text("Fine."))))
			s := newSetup(m, look)
			s.MaxTurns = 2 // the rejected request does not count
			got := s.run(t.Context(), t, "")
			require.Len(t, up.Requests(), row.requests)
			require.Contains(t, string(up.Requests()[1].Body), `"type":"image"`)
			if row.fails {
				require.Error(t, got.err)
				return
			}
			require.NoError(t, got.err)
			require.Equal(t, 2, got.outcome.NumTurns)
			require.Contains(t, strings.Join(got.lines, "\n"), "system warning")
			again := s.run(t.Context(), t, got.session)
			require.NoError(t, again.err)
			require.Len(t, up.Requests(), 4)
			for _, request := range up.Requests()[2:] {
				require.NotContains(t, string(request.Body), `"type":"image"`)
				require.Equal(t, 2, strings.Count(string(request.Body), "[image]"))
			}
		})
	}
}
