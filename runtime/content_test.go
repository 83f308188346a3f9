package runtime_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// picture returns a PNG of one pixel, with zeros at the end that make it size bytes long.
func picture(size int) []byte {
	var data bytes.Buffer
	if err := png.Encode(&data, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err) // memory only
	}
	return append(data.Bytes(), make([]byte, max(0, size-data.Len()))...)
}

var (
	gif  = []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00\x3b")
	jpeg = []byte("\xff\xd8\xff\xe0\x00\x10JFIF")
	webp = []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00")
	pdf  = []byte("%PDF-1.7\n1 0 obj\n")
)

const blocking = `"stream":false`

// sends returns the body of a blocking run with these parts.
func sends(t *testing.T, message string, parts ...wire.ContentPart) string {
	t.Helper()
	body, err := json.Marshal(wire.RunRequest{Message: message, Stream: wire.StreamOff, Content: parts})
	require.NoError(t, err)
	return string(body)
}

func imagePart(data []byte) wire.ContentPart { return wire.ContentPart{Type: "image", Data: data} }

func filePart(name string, data []byte) wire.ContentPart {
	return wire.ContentPart{Type: "file", Name: name, Data: data}
}

// lastContent returns the content of the last message of a request upstream, without cache control.
func lastContent(t *testing.T, r *modeltest.Request) string {
	t.Helper()
	var body struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(r.Body, &body))
	return strings.ReplaceAll(string(body.Messages[len(body.Messages)-1].Content), `,"cache_control":{"type":"ephemeral"}`, "")
}

// at serves the helper at an upstream of a protocol.
func at(t *testing.T, p modeltest.Protocol, change func(*runtime.Config), replies ...modeltest.Reply) (*bench, *modeltest.Upstream) {
	t.Helper()
	up := modeltest.Start(t, p, replies...)
	return serve(t, up, func(c *runtime.Config) {
		c.Agents[0].Provider.Protocol = string(p)
		if change != nil {
			change(c)
		}
	}), up
}

func base(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// Each part has the form of the protocol, in the order of the request.
func TestPartsInTheFormOfEachProtocol(t *testing.T) {
	one := picture(0)
	parts := []wire.ContentPart{
		{Type: "text", Text: "Look."}, {Type: "image", Name: "photo.png", MediaType: "image/png", Data: one},
		filePart("paper.pdf", pdf), filePart("notes.md", []byte("# Notes")), {Type: "text", Text: "And now?"},
	}
	for protocol, want := range map[modeltest.Protocol]string{
		modeltest.Anthropic: `[{"type":"text","text":"Hello."},{"type":"text","text":"Look."},
			{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + base(one) + `"}},
			{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + base(pdf) + `"},"title":"paper.pdf"},
			{"type":"document","source":{"type":"text","media_type":"text/plain","data":"# Notes"},"title":"notes.md"},
			{"type":"text","text":"And now?"}]`,
		modeltest.OpenAI: `[{"type":"text","text":"Hello."},{"type":"text","text":"Look."},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base(one) + `"}},
			{"type":"file","file":{"filename":"paper.pdf","file_data":"data:application/pdf;base64,` + base(pdf) + `"}},
			{"type":"text","text":"<file name=\"notes.md\">\n# Notes\n</file>"},
			{"type":"text","text":"And now?"}]`,
	} {
		t.Run(string(protocol), func(t *testing.T) {
			b, up := at(t, protocol, nil, modeltest.Repeat(modeltest.Stream(modeltest.Text("Fine."))))
			res, run := b.blocking(t, sends(t, "Hello.", parts...))
			require.Equal(t, wire.StateCompleted, run.State, res.body)
			require.JSONEq(t, want, lastContent(t, up.Requests()[0]))

			res, run = b.blocking(t, sends(t, "", parts[0], parts[4]))
			require.Equal(t, wire.StateCompleted, run.State, res.body)
			texts := `[{"type":"text","text":"Look."},{"type":"text","text":"And now?"}]`
			if protocol == modeltest.OpenAI {
				texts = `"Look.\n\nAnd now?"`
			}
			require.JSONEq(t, texts, lastContent(t, up.Requests()[1]), "texts are a message of texts")
		})
	}
}

// Every accepted type is known by its first bytes. A model receives the bytes as they are.
func TestTypesOfParts(t *testing.T) {
	for name, row := range map[string]struct {
		part wire.ContentPart
		want string // upstream
	}{
		"PNG":               {imagePart(picture(0)), "data:image/png;base64," + base(picture(0))},
		"JPEG":              {imagePart(jpeg), "data:image/jpeg;base64," + base(jpeg)},
		"GIF":               {imagePart(gif), "data:image/gif;base64," + base(gif)},
		"WebP":              {imagePart(webp), "data:image/webp;base64," + base(webp)},
		"PDF":               {filePart("", pdf), "data:application/pdf;base64," + base(pdf)},
		"text":              {filePart("", []byte("a,b")), "a,b"},
		"text of a type":    {wire.ContentPart{Type: "file", MediaType: "text/csv; charset=utf-8", Data: []byte("a,b")}, "a,b"},
		"JSON":              {wire.ContentPart{Type: "file", MediaType: "application/json", Data: []byte("[]")}, "[]"},
		"a drawing":         {wire.ContentPart{Type: "file", MediaType: "image/svg+xml", Data: []byte("<svg/>")}, "<svg/>"},
		"a script":          {wire.ContentPart{Type: "file", MediaType: "application/x-sh", Data: []byte("ls")}, "ls"},
		"5 MiB of an image": {imagePart(picture(5 << 20)), base(picture(5 << 20))},
		"10 MiB of a PDF":   {filePart("", append(pdf, make([]byte, 10<<20-len(pdf))...)), base(pdf[:15])},
		"10 MiB of text":    {filePart("", bytes.Repeat([]byte("x"), 10<<20)), strings.Repeat("x", 10<<20)},
		"an image bomb":     {imagePart(bomb), base(bomb)},
	} {
		t.Run(name, func(t *testing.T) {
			b, up := at(t, modeltest.OpenAI, func(c *runtime.Config) { c.Agents[0].ContextWindow = 10_000_000 }, modeltest.Stream(modeltest.Text("Fine.")))
			_, run := b.blocking(t, sends(t, "", row.part))
			require.Equal(t, wire.StateCompleted, run.State, run.Error)
			sent := string(up.Requests()[0].Body)
			if strings.Contains(sent, row.want) {
				return
			}
			var body struct {
				Messages []struct {
					Content any `json:"content"`
				} `json:"messages"`
			}
			require.NoError(t, json.Unmarshal([]byte(sent), &body))
			require.Contains(t, fmt.Sprint(body.Messages[0].Content), row.want)
		})
	}
}

// bomb is a PNG of 50,000 times 50,000 pixels without any of them.
var bomb = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\xc3\x50\x00\x00\xc3\x50\x08\x06\x00\x00\x00")

// requirePart requires that a run is rejected because of a part, before it starts.
func (b *bench) requirePart(t *testing.T, body, want string) {
	t.Helper()
	res := b.do(t, "POST", runs, body)
	require.Equal(t, http.StatusBadRequest, res.status, res.body)
	var got wire.ErrorBody
	require.NoError(t, json.Unmarshal([]byte(res.body), &got))
	require.Equal(t, "Invalid request: "+want, got.Error)
	require.Empty(t, res.header.Get("X-Run-Id"))
	require.Zero(t, b.Reserved())
}

func TestPartsThatAreRejected(t *testing.T) {
	b := serve(t, nil, quick)
	many := func(n int, p wire.ContentPart) []wire.ContentPart {
		var all []wire.ContentPart
		for range n {
			all = append(all, p)
		}
		return all
	}
	typed := func(kind, media string, data []byte) []wire.ContentPart {
		return []wire.ContentPart{{Type: kind, MediaType: media, Data: data}}
	}
	one := picture(0)
	for name, row := range map[string]struct {
		parts []wire.ContentPart
		want  string
	}{
		"a lying type":                {append(many(1, imagePart(one)), typed("image", "image/jpeg", one)...), `content[1].mediaType: the type is "image/jpeg", but the bytes are image/png`},
		"a PDF with a lying type":     {typed("file", "text/plain", pdf), `content[0].mediaType: the type is "text/plain", but the bytes are application/pdf`},
		"a text as a PDF":             {typed("file", "application/pdf", []byte("text")), `content[0].mediaType: the type is "application/pdf", but the bytes are text/plain`},
		"a text as an archive":        {typed("file", "application/zip", []byte("text")), `content[0].mediaType: the type is "application/zip", but the bytes are text/plain`},
		"a type that is not one":      {typed("image", "png", one), `content[0].mediaType: the type is "png", but the bytes are image/png`},
		"an image as a file":          {typed("file", "", one), `content[0].type: the type is file, but the bytes are image/png`},
		"a PDF as an image":           {typed("image", "", pdf), `content[0].type: the type is image, but the bytes are application/pdf`},
		"bytes of nothing":            {typed("file", "", []byte("a\x00b")), `content[0].data: neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8`},
		"a text in Latin-1":           {typed("file", "text/plain", []byte("caf\xe9")), `content[0].mediaType: neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8`},
		"nine images":                 {many(9, imagePart(gif)), `content[8]: a message must have at most 8 images`},
		"5 MiB and 1 byte":            {many(1, imagePart(picture(5<<20+1))), `content[0].data: image/png must have at most 5242880 bytes`},
		"20 MiB and 1 byte":           {append(many(4, imagePart(picture(5<<20))), imagePart(gif)), `content[4]: the images of a message must have at most 20971520 bytes together`},
		"a file of 10 MiB and 1 byte": {many(1, filePart("", bytes.Repeat([]byte("x"), 10<<20+1))), `content[0].data: text/plain must have at most 10485760 bytes`},
		"30 MiB and 1 byte":           {append(many(3, filePart("", bytes.Repeat([]byte("x"), 10<<20))), filePart("", []byte("x"))), `content[3]: the images and files of a request must have at most 31457280 bytes together`},
		"65 parts":                    {many(65, wire.ContentPart{Type: "text", Text: "x"}), `content must have at most 64 entries`},
		"an unknown type":             {many(1, wire.ContentPart{Type: "audio", Data: gif}), `content[0].type must be text, image or file`},
		"a blank text":                {many(1, wire.ContentPart{Type: "text", Text: " \n"}), `content[0].text is required`},
		"a text with bytes":           {many(1, wire.ContentPart{Type: "text", Text: "x", Data: gif}), `content[0]: a text has no name, mediaType, data and uploadId`},
		"an image with a text":        {many(1, wire.ContentPart{Type: "image", Text: "x", Data: gif}), `content[0].text is that of the type text`},
		"an image without bytes":      {many(1, wire.ContentPart{Type: "image"}), `content[0].data or uploadId is required`},
		"an image with bytes of both": {many(1, wire.ContentPart{Type: "image", Data: gif, UploadID: "x"}), `content[0].data excludes uploadId`},
		"an upload that is unknown":   {append(many(1, imagePart(gif)), wire.ContentPart{Type: "image", UploadID: strings.Repeat("0", 64)}), `content[1].uploadId: unknown upload`},
		"an upload with a path":       {many(1, wire.ContentPart{Type: "image", UploadID: "../x"}), `content[0].uploadId: unknown upload`},
		"a name with a line end":      {many(1, wire.ContentPart{Type: "image", Name: "a\nb", Data: gif}), `content[0].name must have at most 255 bytes, without control characters`},
		"a name of 256 bytes":         {many(1, wire.ContentPart{Type: "image", Name: strings.Repeat("x", 256), Data: gif}), `content[0].name must have at most 255 bytes, without control characters`},
		"an empty file":               {many(1, wire.ContentPart{Type: "file", Data: []byte{}}), `content[0].data or uploadId is required`},
	} {
		t.Run(name, func(t *testing.T) { b.requirePart(t, sends(t, "hello", row.parts...), row.want) })
	}
	for body, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"},{"type":"image","data":"R0lGODlh"},{"type":"image","data":"%%%"}]}`: `content[2].data must be base64`,
		`{"content":[{"type":"image","data":"R0lGODl"}]}`:                                                           `content[0].data must be base64`,
		`{"content":[{"type":"image","data":"data:image/gif;base64,R0lGODlh"}]}`:                                    `content[0].data must be base64`,
		`{"content":[{"type":"image","data":7}]}`:                                                                   `content[0].data must be an array, not number`,
		`{"content":{}}`:                            `content must be an array, not object`,
		`{"content":[]}`:                            `message is required`,
		`{"message":"","content":null}`:             `message is required`,
		`{"message":"a","content":[{"type":null}]}`: `content[0].type must be text, image or file`,
		`{"message":"a","history":[{"role":"user","content":"","parts":[]},{"role":"assistant","content":"b"}]}`:                               `history[0].content is required`,
		`{"message":"a","history":[{"role":"user","content":"a"},{"role":"assistant","content":"b","parts":[{"type":"text","text":"c"}]}]}`:    `history[1].parts are those of a user`,
		`{"message":"a","history":[{"role":"user","content":"","parts":[{"type":"image","data":"AAAA"}]},{"role":"assistant","content":"b"}]}`: `history[0].parts[0].data: neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8`,
		`{"message":"a","history":[{"role":"user","content":"","parts":[{"type":"image","data":"%"}]},{"role":"assistant","content":"b"}]}`:    `history[0].parts[0].data must be base64`,
	} {
		b.requirePart(t, body, want)
	}
}

// The limit of a request does not include the bytes of images and files.
func TestTheLimitOfARequestIsThatOfItsTexts(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		quick(c)
		c.Limits.MaxMessageBytes = 1000
		c.Agents[0].ContextWindow = 100_000_000
	})
	all := []wire.ContentPart{filePart("", bytes.Repeat([]byte("x"), 10<<20))}
	for range 4 {
		all = append(all, imagePart(picture(5<<20)))
	}
	res := b.do(t, "POST", runs, sends(t, "hello", all...))
	require.Equal(t, http.StatusOK, res.status, res.body)
	for _, body := range []string{
		sends(t, strings.Repeat("x", 1000), all...), sends(t, strings.Repeat("x", 1000)), sends(t, "", wire.ContentPart{Type: "text", Text: strings.Repeat("x", 1000)}),
		strings.Repeat(" ", 1001), `{"message":"x"` + strings.Repeat(" ", 1000) + `,`, strings.Repeat(" ", 45<<20),
		sends(t, "hello", append(all, all...)...),
	} {
		res := b.do(t, "POST", runs, body)
		require.Equal(t, http.StatusRequestEntityTooLarge, res.status, res.body)
	}
	require.Zero(t, b.Reserved())
}

// A history has parts, which precede the message.
func TestPartsOfAHistory(t *testing.T) {
	b, up := at(t, modeltest.Anthropic, nil, modeltest.Stream(modeltest.Text("Fine.")))
	body, err := json.Marshal(wire.RunRequest{Message: "And now?", Stream: wire.StreamOff, History: []wire.Turn{
		{Role: "user", Content: "Look.", Parts: []wire.ContentPart{imagePart(gif)}}, {Role: "assistant", Content: "A dot."},
		{Role: "user", Parts: []wire.ContentPart{filePart("a.pdf", pdf)}}, {Role: "assistant", Content: "A page."},
	}})
	require.NoError(t, err)
	_, run := b.blocking(t, string(body))
	require.Equal(t, wire.StateCompleted, run.State, run.Error)
	var sent struct {
		Messages []struct {
			Content []struct {
				Type string `json:"type"`
			} `json:"content"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(up.Requests()[0].Body, &sent))
	require.Len(t, sent.Messages, 5)
	require.Equal(t, "text", sent.Messages[0].Content[0].Type)
	require.Equal(t, "image", sent.Messages[0].Content[1].Type)
	require.Equal(t, "document", sent.Messages[2].Content[0].Type)
}

// The demo model names what it received.
func TestPartsForTheDemoModel(t *testing.T) {
	b := serve(t, nil, quick)
	_, run := b.blocking(t, sends(t, "hello", wire.ContentPart{Type: "image", Name: "a.gif", Data: gif}, filePart("", pdf)))
	require.Contains(t, run.Text, "You wrote: hello")
	require.Contains(t, run.Text, fmt.Sprintf("You sent: image a.gif (%d bytes), file (%d bytes).", len(gif), len(pdf)))
	_, run = b.blocking(t, sends(t, "", imagePart(gif)))
	require.Contains(t, run.Text, "You sent: image")
}

// Images and files are in the budget of memory, as are those of uploads.
func TestPartsAreInTheMemoryBudget(t *testing.T) {
	const limit = 128 << 20
	b := limited(t, limit, func(c *runtime.Config) { c.Agents[0].ContextWindow = 10_000_000 },
		modeltest.Repeat(modeltest.Stream(modeltest.Text("a"), modeltest.Hang())))
	body := sends(t, "hello", imagePart(picture(3<<20)), imagePart(picture(3<<20)), imagePart(picture(3<<20)))
	ctx, leave := context.WithCancel(t.Context())
	before, ends := heap(), map[string]int{}
	for range 4 {
		s := b.open(ctx, t, strings.Replace(body, blocking, `"stream":true`, 1))
		ev := s.next()
		for ev.name != "partial_message" && ev.name != "result" {
			ev = s.next()
		}
		ends[fmt.Sprint(ev.name, " ", ev.data["error_type"])]++
	}
	require.Equal(t, map[string]int{"partial_message <nil>": 2, "result overloaded": 2}, ends, "each holds 45 MiB")
	require.Less(t, heap()-before, limit)
	leave()
	require.Eventually(t, func() bool { return b.Reserved() == 0 }, time.Minute, time.Millisecond, "everything is released")

	small := limited(t, 4<<20, nil, modeltest.Stream(modeltest.Text("a")))
	res := small.do(t, "POST", "/v1/uploads", string(picture(3<<20)))
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, outOfMemory, res.body)
	require.Zero(t, small.Reserved())
	dir := t.TempDir()
	large := serve(t, nil, func(c *runtime.Config) { c.UploadDir = dir })
	up := large.upload(t, "", "", picture(5<<20))
	small = limited(t, 4<<20, func(c *runtime.Config) { c.UploadDir = dir }, modeltest.Stream(modeltest.Text("a")))
	res = small.do(t, "POST", runs, sends(t, "", wire.ContentPart{Type: "image", UploadID: up.ID}))
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, outOfMemory, res.body)
	require.Zero(t, small.Reserved())
}
