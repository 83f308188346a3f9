package filesafe_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

func TestServe(t *testing.T) {
	content := strings.Repeat("0123456789", 10_000)
	seekable := func(r io.Reader) io.ReadSeeker {
		return struct {
			io.Reader
			io.Seeker
		}{r, strings.NewReader(content)}
	}
	serve := func(body io.ReadSeeker, headers ...string) (rec *httptest.ResponseRecorder, status int, err error) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		rec = httptest.NewRecorder()
		sent := filesafe.Content{
			Body: body, Name: "ü.ts", Size: int64(len(content)), Modified: time.Unix(1e9, 0), ETag: `"tag"`, CacheControl: "public",
		}
		status, err = sent.Serve(rec, r)
		return rec, status, err
	}
	rec, status, err := serve(strings.NewReader(content))
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, content, rec.Body.String())
	require.Equal(t, http.Header{
		"Accept-Ranges": {"bytes"}, "Cache-Control": {"public"}, "Content-Disposition": {"attachment; filename*=UTF-8''%C3%BC.ts"}, "Content-Length": {"100000"},
		"Content-Type": {"text/typescript"}, "Etag": {`"tag"`}, "Last-Modified": {"Sun, 09 Sep 2001 01:46:40 GMT"}, "X-Content-Type-Options": {"nosniff"},
	}, rec.Header())

	rec, status, err = serve(strings.NewReader(content), "Range", "bytes=50001-99990", "If-Range", `"tag"`)
	require.NoError(t, err)
	require.Equal(t, 206, status)
	require.Equal(t, content[50_001:99_991], rec.Body.String())

	rec, status, err = serve(strings.NewReader(content), "If-None-Match", `"tag"`)
	require.NoError(t, err)
	require.Equal(t, 304, status)
	require.Empty(t, rec.Body.String())

	for want, header := range map[int][]string{412: {"If-Match", `"other"`}, 416: {"Range", "bytes=100000-"}} {
		rec, status, err = serve(strings.NewReader(content), header...)
		require.NoError(t, err)
		require.Equal(t, want, status)
		require.Equal(t, 200, rec.Code, "nothing was written")
		require.Empty(t, rec.Header().Get("Etag"))
	}

	broken := errors.New("broken")
	rec, status, err = serve(seekable(io.MultiReader(strings.NewReader(content[:20_000]), iotest.ErrReader(broken))))
	require.ErrorIs(t, err, broken)
	require.Equal(t, 200, status)
	require.Equal(t, content[:20_000], rec.Body.String())
	_, _, err = serve(bytes.NewReader(nil))
	require.ErrorIs(t, err, io.EOF)
	rec, status, err = serve(failingSeeker{strings.NewReader(content), broken}, "Range", "bytes=1-")
	require.ErrorIs(t, err, broken)
	require.Zero(t, status)
	require.Empty(t, rec.Header())
}

type failingSeeker struct {
	io.Reader
	err error
}

func (f failingSeeker) Seek(int64, int) (int64, error) { return 0, f.err }
