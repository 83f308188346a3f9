package runtime_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func (b *bench) upload(t *testing.T, name, media string, data []byte) wire.Upload {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: b.url})
	require.NoError(t, err)
	up, err := c.Upload(t.Context(), name, media, data)
	require.NoError(t, err)
	return up
}

// An upload is that of a run with the same bytes, and its session has them when the upload is gone.
func TestUploads(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	open := func(replies ...modeltest.Reply) (*bench, *modeltest.Upstream) {
		files, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd})
		require.NoError(t, err)
		t.Cleanup(func() { _ = files.Close() })
		return at(t, modeltest.Anthropic, func(c *runtime.Config) {
			c.CWD, c.Sessions, c.UploadDir = cwd, files, filepath.Join(dir, "uploads")
		}, replies...)
	}
	b, _ := open()
	first := b.upload(t, "a photo.png", "image/png", picture(0))
	require.Equal(t, first, b.upload(t, "a photo.png", "", picture(0)), "the same content")
	sum := sha256.Sum256(picture(0))
	require.Equal(t, wire.Upload{ID: first.ID, Name: "a photo.png", MediaType: "image/png", Size: len(picture(0)), SHA256: hex.EncodeToString(sum[:])}, first)
	text := b.upload(t, "", "text/csv", []byte("a,b"))
	require.Equal(t, "text/csv", text.MediaType)
	b.requirePart(t, sends(t, "", wire.ContentPart{Type: "file", UploadID: first.ID}), `content[0].type: the type is file, but the bytes are image/png`)

	// After a restart.
	b, up := open(modeltest.Repeat(modeltest.Stream(modeltest.Text("Fine."))))
	_, run := b.blocking(t, sends(t, "Look.", wire.ContentPart{Type: "image", UploadID: first.ID}, wire.ContentPart{Type: "file", Name: "t.csv", UploadID: text.ID}))
	require.Equal(t, wire.StateCompleted, run.State, run.Error)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "uploads")))
	b, again := open(modeltest.Stream(modeltest.Text("Fine.")))
	res := b.do(t, "POST", runs, `{"message":"And now?","sessionId":"`+run.SessionID+`",`+blocking+`}`)
	require.Equal(t, http.StatusOK, res.status, res.body)
	for _, r := range []*modeltest.Request{up.Requests()[0], again.Requests()[0]} {
		require.Contains(t, string(r.Body), `"data":"`+base(picture(0))+`"`)
		require.Contains(t, string(r.Body), `"data":"a,b"`)
		require.Contains(t, string(r.Body), `"title":"t.csv"`)
	}

	// The transcript names them, and ends with the session.
	res = b.do(t, "GET", "/v1/sessions/"+run.SessionID, "")
	require.Contains(t, res.body, fmt.Sprintf(`{"type":"image","name":"a photo.png","mediaType":"image/png","size":%d}`, len(picture(0))))
	require.Contains(t, res.body, `{"type":"file","name":"t.csv","mediaType":"text/plain","size":3}`)
	require.Equal(t, http.StatusNoContent, b.do(t, "DELETE", "/v1/sessions/"+run.SessionID, "").status)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !e.IsDir() {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, string(data), base(picture(0)), path)
		}
		return nil
	}))
}

func TestUploadsThatAreRejected(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.Limits.MaxUploadBytes = 6 << 20 })
	post := func(query, media string, data []byte) response {
		headers := []string{}
		if media != "" {
			headers = []string{"Content-Type", media}
		}
		return b.do(t, "POST", "/v1/uploads"+query, string(data), headers...)
	}
	for name, row := range map[string]struct {
		query, media string
		data         []byte
		status       int
		want         string
	}{
		"a lying type":      {"", "image/png", gif, 400, `Invalid request: Content-Type: the type is \"image/png\", but the bytes are image/gif`},
		"no bytes":          {"", "", nil, 400, `Invalid request: the body: neither a PNG`},
		"an archive":        {"", "application/zip", []byte("PK\x03\x04\x00"), 400, `Invalid request: Content-Type: neither a PNG`},
		"a large image":     {"", "", picture(5<<20 + 1), 400, `Invalid request: the body: image/png must have at most 5242880 bytes`},
		"a large file":      {"", "", bytes.Repeat([]byte("x"), 10<<20+1), 413, `Request body too large`},
		"a name":            {"?name=a%0Ab", "", gif, 400, `Invalid request: name must have`},
		"a malformed query": {"?name=%", "", gif, 400, `Invalid request: the query string is malformed`},
		"more than fit":     {"", "", bytes.Repeat([]byte("x"), 7<<20), 503, `"Too many uploads"`},
	} {
		t.Run(name, func(t *testing.T) {
			res := post(row.query, row.media, row.data)
			require.Equal(t, row.status, res.status, res.body)
			require.Contains(t, res.body, row.want)
			require.Equal(t, row.status == 503, res.header.Get("Retry-After") != "")
			require.Zero(t, b.Reserved())
		})
	}
	for _, media := range []string{"", "application/octet-stream", "application/x-www-form-urlencoded", "image/gif", "IMAGE/GIF; x=y"} {
		require.Equal(t, http.StatusCreated, post("?name="+url.QueryEscape("ä b.gif"), media, gif).status, media)
	}
}

func (c *contract) uploads() {
	dir := c.t.TempDir()
	b := serve(c.t, nil, func(cfg *runtime.Config) {
		quick(cfg)
		cfg.UploadDir, cfg.Limits.MaxUploadBytes = dir, 1000
	})
	res := c.call(b, "POST", "/v1/uploads?name=a.gif", string(gif))
	require.Equal(c.t, 201, res.status, res.body)
	var up wire.Upload
	require.NoError(c.t, json.Unmarshal([]byte(res.body), &up))
	rejected := *c
	rejected.unforeseen = true // the document does not describe bytes
	require.Equal(c.t, 400, rejected.call(b, "POST", "/v1/uploads", "\x00").status)
	require.Equal(c.t, 413, c.call(b, "POST", "/v1/uploads", strings.Repeat("x", 10<<20+1)).status)
	require.Equal(c.t, 503, c.call(b, "POST", "/v1/uploads", strings.Repeat("x", 1000)).status)

	body := sends(c.t, "", wire.ContentPart{Type: "image", UploadID: up.ID}, filePart("a.pdf", pdf), wire.ContentPart{Type: "text", Text: "Look."})
	res = c.call(b, "POST", runs, body)
	require.Equal(c.t, 200, res.status, res.body)
	var run wire.RunResponse
	require.NoError(c.t, json.Unmarshal([]byte(res.body), &run))
	require.Contains(c.t, c.call(b, "GET", "/v1/sessions/"+run.SessionID, "").body, `"type":"image"`)
	require.Equal(c.t, 400, c.call(b, "POST", runs, `{"content":[]}`).status)

	require.NoError(c.t, os.RemoveAll(dir))
	require.Equal(c.t, 500, c.call(b, "POST", "/v1/uploads", string(gif)).status)
}
