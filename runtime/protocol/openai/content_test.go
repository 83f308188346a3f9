package openai_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// heart is an image.
var heart = func() string {
	var data bytes.Buffer
	if err := png.Encode(&data, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		panic(err)
	}
	return data.String()
}()

func dataURL(media, data string) string {
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString([]byte(data))
}

// Images and files of both protocols reach the model, in the order of the parts.
func TestImagesAndFiles(t *testing.T) {
	picture, pdf := dataURL("image/png", heart), dataURL("application/pdf", "%PDF-1.7 x")
	note := base64.StdEncoding.EncodeToString([]byte("a note"))
	chat := func(content string) string {
		return `{"model":"helper","messages":[{"role":"user","content":` + content + `}]}`
	}
	responses := func(content string) string {
		return `{"model":"helper","store":false,"input":[{"type":"message","role":"user","content":` + content + `}]}`
	}
	for name, row := range map[string]struct{ path, body string }{
		"chat": {"/chat/completions", chat(`[{"type":"text","text":"before"},{"type":"image_url","image_url":{"url":"` + picture + `","detail":"low"}},
			{"type":"text","text":"between"},{"type":"file","file":{"filename":"a.pdf","file_data":"` + pdf + `"}},{"type":"file","file":{"filename":"n.txt","file_data":"` + note + `"}}]`)},
		"responses": {"/responses", responses(`[{"type":"input_text","text":"before"},{"type":"input_image","detail":"auto","image_url":"` + picture + `"},
			{"type":"input_text","text":"between"},{"type":"input_file","filename":"a.pdf","file_data":"` + pdf + `"},{"type":"input_file","filename":"n.txt","file_data":"` + note + `"}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("A heart.")))
			res := serve(t, up, nil).do("POST", row.path, row.body)
			require.Equal(t, http.StatusOK, res.status, res.body)
			sent := string(up.Requests()[0].Body)
			at := -1
			for _, part := range []string{`"text":"before"`, `"media_type":"image/png"`, `"text":"between"`, `"media_type":"application/pdf"`, "a note"} {
				i := strings.Index(sent, part)
				require.Greater(t, i, at, "%s in %s", part, sent)
				at = i
			}
		})
	}
}

// Nothing is fetched, and bytes are what the request says that they are.
func TestContentThatIsRejected(t *testing.T) {
	b := serve(t, nil, nil)
	for name, row := range map[string]struct{ part, param string }{
		"a URL":                {`{"type":"input_image","image_url":"https://example.com/a.png"}`, "image_url"},
		"no URL":               {`{"type":"input_image"}`, "image_url"},
		"null":                 {`{"type":"input_image","image_url":null}`, "image_url"},
		"an id of an image":    {`{"type":"input_image","file_id":"file-1"}`, "file_id"},
		"a URL of a file":      {`{"type":"input_file","file_url":"https://example.com/a.pdf"}`, "file_url"},
		"an id of a file":      {`{"type":"input_file","file_id":"file-1"}`, "file_id"},
		"an id of a chat file": {`{"type":"file","file":{"file_id":"file-1"}}`, "file.file_id"},
		"no base64":            {`{"type":"input_image","image_url":"data:image/png;base64,%%%"}`, "image_url"},
		"percent encoding":     {`{"type":"input_image","image_url":"data:image/png,a%20b"}`, "image_url"},
		"no bytes":             {`{"type":"input_file","file_data":""}`, "file_data"},
		"audio":                {`{"type":"input_audio","input_audio":{"data":"","format":"wav"}}`, "type"},
		"another type":         {`{"type":"input_image","image_url":5}`, "image_url"},
		"a lying type":         {`{"type":"input_file","file_data":"` + dataURL("application/pdf", "no PDF") + `"}`, ""},
		"an image as a text":   {`{"type":"input_file","file_data":"` + dataURL("text/plain", heart) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			res := b.do("POST", "/responses", `{"model":"helper","input":[{"role":"user","content":[`+row.part+`]}]}`)
			require.Equal(t, http.StatusBadRequest, res.status, res.body)
			fits(t, "ErrorResponse", res.json)
			if row.param != "" {
				require.Equal(t, "input[0].content[0]."+row.param, errorOf(t, res.json)["param"], res.body)
			}
			chat := b.do("POST", "/chat/completions", `{"model":"helper","messages":[{"role":"user","content":[`+row.part+`]}]}`)
			require.Equal(t, http.StatusBadRequest, chat.status, chat.body)
		})
	}
	pictures := `[{"type":"input_image","image_url":"` + dataURL("image/png", heart) + `"}]`
	for _, item := range []string{`{"role":"assistant","content":%s}`, `{"role":"system","content":%s}`, `{"type":"function_call_output","call_id":"c","output":%s}`} {
		res := b.do("POST", "/responses", `{"model":"helper","input":[`+fmt.Sprintf(item, pictures)+`,{"role":"user","content":"a"}]}`)
		require.Equal(t, http.StatusBadRequest, res.status, res.body)
		require.Equal(t, "input[0]", errorOf(t, res.json)["param"], res.body)
	}
}

// The bytes of images have a limit of their own.
func TestLargeContent(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("A heart.")))
	b := serve(t, up, nil)
	picture := `{"type":"input_image","image_url":"` + dataURL("image/png", heart+strings.Repeat("x", 3<<20)) + `"}`
	body := func(parts string) string {
		return `{"model":"helper","input":[{"role":"user","content":[` + parts + `]}]}`
	}
	res := b.do("POST", "/responses", body(picture+","+picture))
	require.Equal(t, http.StatusOK, res.status, "8.4 MB: %.300s", res.body)
	res = b.do("POST", "/responses", body(picture+`,{"type":"input_text","text":"`+strings.Repeat("x", 5<<20)+`"}`))
	require.Equal(t, http.StatusRequestEntityTooLarge, res.status, res.body)
	res = b.do("POST", "/responses", body(strings.Repeat(picture+",", 11)+picture))
	require.Equal(t, http.StatusRequestEntityTooLarge, res.status, res.body)
	require.Len(t, up.Requests(), 1)
}
