package chat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const uploads = "/api/v1/agents/helper/chat/uploads"

// gif is an image, with bytes at its end that make it size bytes long.
func gif(size int) []byte {
	data := []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00\x3b")
	return append(data, make([]byte, max(0, size-len(data)))...)
}

var pdf = []byte("%PDF-1.7\n1 0 obj\n")

// sendFile uploads a file, of the type that its bytes have if media is "".
func sendFile(c *apitest.Client, media string, data []byte) apitest.Response {
	return c.Do(http.MethodPost, uploads, bytes.NewReader(data), "Content-Type", media)
}

func uploaded(c *apitest.Client, data []byte) string {
	return sendFile(c, "", data).Want(http.StatusCreated)["id"].(string)
}

func inline(kind string, data []byte) object { return object{"type": kind, "data": data} }

func byID(kind, id string) object { return object{"type": kind, "uploadId": id} }

// sent returns the last run that a runtime received.
func (p *posted) sent(t *testing.T) (run runtimewire.RunRequest) {
	t.Helper()
	all := p.take()
	require.NotEmpty(t, all)
	require.NoError(t, json.Unmarshal(all[len(all)-1], &run))
	return run
}

// stored returns the number of stored files, of all chats and of none.
func (s *server) files() int { return s.number(`SELECT COUNT(*) FROM chat_files`) }

func TestFilesOfAMessage(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		runs := s.record(nil)
		ada := s.ada()
		path := session(ada)
		image, notes := gif(100), []byte("Some *notes*.")
		up := sendFile(ada, "text/markdown", notes).Want(http.StatusCreated)
		require.Equal(t, []any{"text/markdown", float64(len(notes))}, []any{up["mediaType"], up["size"]})
		require.Equal(t, up, sendFile(ada, "text/markdown; charset=utf-8", notes).Want(http.StatusCreated), "the same bytes have one id")
		require.NotEqual(t, up["id"], sendFile(ada, "text/csv", notes).Want(http.StatusCreated)["id"])
		require.Equal(t, 2, s.files())

		events := send(t, ada, path, object{"message": "Look:", "content": []object{
			inline("image", image), {"type": "text", "text": "and read"},
			{"type": "file", "name": "notes.md", "uploadId": up["id"]},
		}}).rest()
		require.Equal(t, "completed", last(events))
		run := runs.sent(t)
		require.Equal(t, "Look:", run.Message)
		require.Equal(t, []runtimewire.ContentPart{
			{Type: "image", MediaType: "image/gif", Data: image}, {Type: "text", Text: "and read"},
			{Type: "file", Name: "notes.md", MediaType: "text/markdown", Data: notes},
		}, run.Content)

		m := messages(ada, path)[0]
		require.Equal(t, "Look:\n\nand read", m["text"])
		content := m["content"].([]any)
		id := content[1].(object)["uploadId"].(string)
		require.Equal(t, []any{
			object{"type": "text", "text": "Look:"},
			object{"type": "image", "mediaType": "image/gif", "size": 100.0, "uploadId": id},
			object{"type": "text", "text": "and read"},
			object{"type": "file", "name": "notes.md", "mediaType": "text/markdown", "size": float64(len(notes)), "uploadId": up["id"]},
		}, content)
		require.Equal(t, 3, s.files(), "that of the chat in place of the upload")
		s.sizes(int64(s.number(`SELECT SUM(` + bytesOfMessage + `) FROM chat_messages`)))

		for _, of := range []string{path, admin + strings.TrimPrefix(path, sessions)} {
			res := ada.Get(of + "/uploads/" + id)
			require.Equal(t, string(image), res.Text)
			require.Equal(t, "image/gif", res.Header.Get("Content-Type"))
			res = ada.Get(of + "/uploads/" + up["id"].(string))
			require.Equal(t, string(notes), res.Text)
			require.Equal(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"))
			require.Regexp(t, "^attachment", res.Header.Get("Content-Disposition"))
			require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
			require.Equal(t, "private, no-cache", res.Header.Get("Cache-Control"))
			require.Regexp(t, "; sandbox$", res.Header.Get("Content-Security-Policy"))
		}

		// A message with only a file of another chat, which has a copy of its own.
		other := session(ada)
		require.Equal(t, "completed", last(send(t, ada, other, object{"content": []object{{"type": "file", "name": "a.md", "uploadId": up["id"]}}}).rest()))
		require.Equal(t, "a.md", ada.Get(sessions).Items()[0]["title"])
		require.Equal(t, 4, s.files())
		ada.Delete(path).Want(http.StatusNoContent)
		ada.Get(path+"/uploads/"+id).Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, string(notes), ada.Get(other+"/uploads/"+up["id"].(string)).Text)
		require.Equal(t, 2, s.files(), "that of the other chat, and the other upload")
		ada.Delete(other).Want(http.StatusNoContent)
		require.Equal(t, 1, s.files())
		require.Contains(t, s.Audit("acme")[0]+s.Audit("acme")[1], `"files":2`)
	})
}

// An upload of one hub is sent with another one.
func TestFilesOfAnotherHub(t *testing.T) {
	t.Parallel()
	url := postgres(t)
	a, b := open(t, url), open(t, url)
	b.deploy(right(t))
	id := uploaded(a.ada(), pdf)
	path := session(a.ada())
	require.Equal(t, "completed", last(send(t, b.ada(), path, object{"content": []object{byID("file", id)}}).rest()))
	require.Equal(t, string(pdf), a.ada().Get(path+"/uploads/"+id).Text)
	b.ada().Delete(path).Want(http.StatusNoContent)
	a.ada().Get(path+"/uploads/"+id).Error(http.StatusNotFound, wire.NotFound)
	require.Zero(t, a.files())
}

// A page of HTML is never one.
func TestPagesAreTexts(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		page := "<!DOCTYPE html><script>alert(1)</script>"
		id := sendFile(ada, "text/html", []byte(page)).Want(http.StatusCreated)["id"].(string)
		require.Equal(t, "completed", last(send(t, ada, path, object{"content": []object{byID("file", id)}}).rest()))
		res := ada.Get(path + "/uploads/" + id)
		require.Equal(t, page, res.Text)
		require.Equal(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"))
		require.Regexp(t, "^attachment", res.Header.Get("Content-Disposition"))
		require.Regexp(t, "^default-src 'none'; .*; sandbox$", res.Header.Get("Content-Security-Policy"))
	})
}

// The files of a user are unknown to all others, except those of its chats to maintainers and
// admins.
func TestFilesOfOtherUsers(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		pending, secret := uploaded(ada, []byte("pending")), uploaded(ada, []byte("secret"))
		require.Equal(t, "completed", last(send(t, ada, path, object{"content": []object{byID("file", secret)}}).rest()))
		unknown := strings.Repeat("0", 64)
		for _, other := range []*apitest.Client{s.As("acme", "eve", rbac.Admin), s.As("acme", "eve", rbac.Member), s.As("zeta", "ada", rbac.Member), s.As("zeta", "ada", rbac.Admin)} {
			own := session(other)
			refused := func(kind, id string) string {
				fault := other.Post(own+"/messages", object{"content": []object{byID(kind, id)}}).Error(http.StatusBadRequest, wire.ValidationFailed)
				delete(fault, "requestId")
				text, err := json.Marshal(fault)
				require.NoError(t, err)
				return string(text)
			}
			for _, id := range []string{pending, secret} {
				require.Equal(t, refused("file", unknown), refused("file", id))
				require.Equal(t, refused("image", unknown), refused("image", id), "not that it is no image")
				other.Get(own+"/uploads/"+id).Error(http.StatusNotFound, wire.NotFound)
				other.Get(path+"/uploads/"+id).Error(http.StatusNotFound, wire.NotFound)
			}
			require.Empty(t, messages(other, own))
		}
		ofAdmin := admin + strings.TrimPrefix(path, sessions) + "/uploads/"
		s.As("acme", "eve", rbac.Member).Get(ofAdmin+secret).Error(http.StatusNotFound, wire.NotFound)
		s.As("zeta", "ada", rbac.Admin).Get(ofAdmin+secret).Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, "secret", s.As("acme", "mia", rbac.Maintainer).Get(ofAdmin+secret).Text)
		s.As("acme", "mia", rbac.Maintainer).Get(ofAdmin+pending).Error(http.StatusNotFound, wire.NotFound)

		// The same bytes of another user have the same id, and are its own.
		eve := s.As("acme", "eve", rbac.Member)
		require.Equal(t, secret, uploaded(eve, []byte("secret")))
		own := session(eve)
		require.Equal(t, "completed", last(send(t, eve, own, object{"content": []object{byID("file", secret)}}).rest()))
		require.Equal(t, pending, uploaded(eve, []byte("pending")))
		require.Equal(t, "completed", last(send(t, eve, own, object{"content": []object{byID("file", pending)}}).rest()))
		require.Equal(t, "completed", last(send(t, ada, path, object{"content": []object{byID("file", pending)}}).rest()))
		ada.Delete(path).Want(http.StatusNoContent)
		require.Equal(t, "secret", eve.Get(own+"/uploads/"+secret).Text)
	})
}

func TestFaultsOfFiles(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		one := gif(30)
		many := func(n int, part object) (all []object) {
			for range n {
				all = append(all, part)
			}
			return all
		}
		typed := func(kind, media string, data []byte) []object {
			return []object{{"type": "text", "text": "x"}, {"type": kind, "mediaType": media, "data": data}}
		}
		large := uploaded(ada, gif(5<<20))
		for name, row := range map[string]struct {
			content []object
			field   string
			fault   string
		}{
			"a lying type":              {typed("image", "image/jpeg", one), "content[1].mediaType", `the type is "image/jpeg", but the bytes are image/gif`},
			"a PDF with a lying type":   {typed("file", "text/plain", pdf), "content[1].mediaType", `the type is "text/plain", but the bytes are application/pdf`},
			"an image as a file":        {typed("file", "", one), "content[1].type", "the type is file, but the bytes are image/gif"},
			"an upload of another type": {[]object{{"type": "image", "mediaType": "image/png", "uploadId": large}}, "content[0].mediaType", `the type is "image/png", but the bytes are image/gif`},
			"an upload as a file":       {many(1, byID("file", large)), "content[0].type", "the type is file, but the bytes are image/gif"},
			"a long type":               {typed("file", "text/"+strings.Repeat("x", 251), []byte("x")), "content[1].mediaType", "a type must have at most 255 bytes"},
			"bytes of nothing":          {typed("file", "", []byte("a\x00b")), "content[1].data", "neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8"},
			"nine images":               {many(9, inline("image", one)), "content[8]", "must be absent: a message has at most 8 images and files"},
			"nine files":                {append(many(8, inline("image", one)), inline("file", pdf)), "content[8]", "must be absent: a message has at most 8 images and files"},
			"65 parts":                  {many(65, object{"type": "text", "text": "x"}), "content", "must have at most 64 elements"},
			"5 MiB and 1 byte":          {many(1, inline("image", gif(5<<20+1))), "content[0].data", "image/gif must have at most 5242880 bytes"},
			"a file of 10 MiB and 1":    {many(1, inline("file", bytes.Repeat([]byte("x"), 10<<20+1))), "content[0].data", "text/plain must have at most 10485760 bytes"},
			"20 MiB and 1 byte":         {append(many(4, byID("image", large)), inline("image", one)), "content[4]", "the images of a message must have at most 20971520 bytes together"},
			"an unknown type":           {many(1, object{"type": "audio", "data": one}), "content[0].type", "must be text, image or file"},
			"a blank text":              {many(1, object{"type": "text", "text": " "}), "content[0].text", "is required"},
			"bytes of both":             {many(1, object{"type": "image", "data": one, "uploadId": large}), "content[0].data", "excludes uploadId"},
			"a path":                    {many(1, byID("image", "../x")), "content[0].uploadId", "must be the id of an upload of the last hour or of your chats: upload the file again"},
			"a name with a line end":    {many(1, object{"type": "image", "name": "a\nb", "data": one}), "content[0].name", "must have at most 255 bytes, without control characters"},
		} {
			fault := ada.Post(path+"/messages", object{"message": "x", "content": row.content}).Error(http.StatusBadRequest, wire.ValidationFailed)
			require.Equal(t, object{row.field: row.fault}, fault["data"].(object)["fields"], name)
		}
		for text, want := range map[string]string{
			`{"content":[{"type":"image","data":"no base64!"}]}`:                 "content[0].data",
			`{"content":[{"type":"text","text":"x"},{"type":"image","data":1}]}`: "content[1].data",
		} {
			fault := ada.Do(http.MethodPost, path+"/messages", strings.NewReader(text), "Content-Type", "application/json").Error(http.StatusBadRequest, wire.InvalidRequest)
			require.Contains(t, fault["message"], want)
		}
		ada.Post(path+"/messages", object{"answers": []object{{"id": "x"}}, "content": many(1, inline("image", one))}).Error(http.StatusBadRequest, wire.ValidationFailed)
		for _, body := range []object{
			{"message": "x", "content": []object{inline("file", bytes.Repeat([]byte("x"), 10<<20)), inline("file", bytes.Repeat([]byte("x"), 3<<20))}},
			{"message": strings.Repeat("x", 1<<20)},
			{"content": []object{{"type": "text", "text": strings.Repeat("x", 1<<20)}, inline("image", one)}},
		} {
			fault := ada.Post(path+"/messages", body).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
			require.Contains(t, fault["message"], "send larger ones to .../chat/uploads")
		}
		require.Empty(t, messages(ada, path))

		for name, row := range map[string]struct {
			media string
			data  []byte
			field string
			fault string
		}{
			"a lying type":  {"image/png", one, "Content-Type", `the type is "image/png", but the bytes are image/gif`},
			"an archive":    {"", []byte("PK\x03\x04\x00"), "body", "neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8"},
			"a long type":   {"text/plain; x=" + strings.Repeat("x", 242), []byte("x"), "Content-Type", "a type must have at most 255 bytes"},
			"nothing":       {"text/plain", nil, "Content-Type", "neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8"},
			"a large image": {"", gif(5<<20 + 1), "body", "image/gif must have at most 5242880 bytes"},
		} {
			fault := sendFile(ada, row.media, row.data).Error(http.StatusBadRequest, wire.ValidationFailed)
			require.Equal(t, object{row.field: row.fault}, fault["data"].(object)["fields"], name)
		}
		fault := sendFile(ada, "", bytes.Repeat([]byte("x"), 10<<20+1)).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
		require.Equal(t, "A file may have at most 10 MiB, and an image 5 MiB: send a smaller one.", fault["message"])
		ada.Do(http.MethodPost, strings.Replace(uploads, "helper", "nobody", 1), strings.NewReader("x")).Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, 1, s.files())
	})
}

func TestFilesOfAUserAreBounded(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		const tooMany = "The images and files of a user may have at most 512 MiB: delete some of your chats first."
		ada := s.ada()
		path := session(ada)
		full := session(ada)
		s.exec(`INSERT INTO chat_files (tenant_id, user_id, id, session_key, media_type, size, stored_at, data)
			SELECT tenant_id, user_id, 'filler', key, 'text/plain', $1, 0, $2 FROM chat_sessions WHERE id = $3`,
			512<<20-3*(16<<10)-2*30, []byte("x"), strings.TrimPrefix(full, sessions+"/"))
		uploaded(ada, gif(30))
		require.Equal(t, tooMany, sendFile(ada, "", gif(31)).Error(http.StatusConflict, wire.Conflict)["message"])
		fault := ada.Post(path+"/messages", object{"content": []object{inline("image", gif(31))}}).Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, tooMany, fault["message"])
		require.Empty(t, messages(ada, path))
		uploaded(s.As("acme", "bob", rbac.Member), gif(31))
		uploaded(s.As("zeta", "ada", rbac.Member), gif(31))
		ada.Delete(full).Want(http.StatusNoContent)
		uploaded(ada, gif(31))
	})
}

// Many uploads at once take at most what the user may have, and those that all hubs store at the
// same time.
func TestManyUploadsAtOnce(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		full := session(ada)
		s.exec(`INSERT INTO chat_files (tenant_id, user_id, id, session_key, media_type, size, stored_at, data)
			SELECT tenant_id, user_id, 'filler', key, 'text/plain', $1, 0, $2 FROM chat_sessions WHERE id = $3`,
			510<<20, []byte("x"), strings.TrimPrefix(full, sessions+"/"))
		const atOnce, size = 32, 256 << 10
		var all sync.WaitGroup
		var stored atomic.Int64
		for i := range atOnce {
			all.Go(func() {
				data := gif(size)
				data[size-1] = byte(i)
				switch res := sendFile(ada, "", data); res.Status {
				case http.StatusCreated:
					stored.Add(1)
				case http.StatusConflict, http.StatusTooManyRequests:
				default:
					t.Errorf("%d %s", res.Status, res.Text)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, stored.Load(), s.files()-1)
		require.GreaterOrEqual(t, stored.Load(), int64(1))
		require.Less(t, stored.Load(), int64(atOnce))
		sendFile(ada, "", append(gif(size), "more"...)).Error(http.StatusConflict, wire.Conflict)
	})
}

// An upload that no message uses is deleted after an hour since it was last sent.
func TestUnusedUploads(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var elapsed atomic.Int64
	s := open(t, postgres(t), func(c *config) { c.now = func() time.Time { return now.Add(time.Duration(elapsed.Load())) } })
	s.deploy(right(t))
	ada := s.ada()
	path := session(ada)
	first, again, used := uploaded(ada, []byte("first")), uploaded(ada, []byte("again")), uploaded(ada, []byte("used"))
	require.Equal(t, "completed", last(send(t, ada, path, object{"content": []object{byID("file", used)}}).rest()))
	elapsed.Store(int64(59 * time.Minute))
	uploaded(ada, []byte("again"))
	for i := range 30 {
		elapsed.Store(int64(i)) // in several transactions of the sweep
		uploaded(ada, fmt.Appendf(nil, "unused %d", i))
	}
	elapsed.Store(int64(59 * time.Minute))
	swept := func() int64 {
		n, err := s.service.DeleteUnusedUploads(t.Context())
		require.NoError(t, err)
		return n
	}
	require.Zero(t, swept())
	elapsed.Store(int64(61 * time.Minute))
	require.EqualValues(t, 31, swept())
	fault := ada.Post(path+"/messages", object{"content": []object{byID("file", first)}}).Error(http.StatusBadRequest, wire.ValidationFailed)
	require.Contains(t, fault["data"].(object)["fields"], "content[0].uploadId")
	require.Equal(t, "completed", last(send(t, ada, path, object{"content": []object{byID("file", again), byID("file", used)}}).rest()))
	require.Equal(t, "used", ada.Get(path+"/uploads/"+used).Text)
}

// A chat that is deleted while messages with its files are sent to others takes no file of another
// chat with it: each message is stored with its file, or is refused.
func TestSendsDuringADeletion(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		for round := range 8 {
			path := session(ada)
			id := uploaded(ada, fmt.Appendf(nil, "round %d", round))
			require.Equal(t, "completed", last(send(t, ada, path, object{"content": []object{byID("file", id)}}).rest()))
			others := []string{session(ada), session(ada), path}
			var all sync.WaitGroup
			all.Go(func() { ada.Delete(path).Want(http.StatusNoContent) })
			for _, other := range others {
				all.Go(func() {
					res := ada.Post(other+"/messages", object{"background": true, "content": []object{byID("file", id)}})
					switch {
					case res.Status == http.StatusAccepted, res.Status == http.StatusBadRequest, other == path && res.Status == http.StatusNotFound, res.Status == http.StatusConflict:
					default:
						t.Errorf("%d %s", res.Status, res.Text)
					}
				})
			}
			all.Wait()
			for _, other := range others[:2] {
				if len(messages(ada, other)) > 0 {
					require.Equal(t, fmt.Sprintf("round %d", round), ada.Get(other+"/uploads/"+id).Text)
				}
			}
			require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_files WHERE session_key IS NOT NULL AND session_key NOT IN (SELECT key FROM chat_sessions)`))
		}
	})
}
