package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// FileEntry is a file or a directory.
type FileEntry struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"` // file, directory, symlink or other
	Size   int64     `json:"size"`
	Mtime  time.Time `json:"mtime"`
	MIME   string    `json:"mime,omitempty"`
	Target string    `json:"target,omitempty"` // of a link, relative to the working directory
}

// File is the content of a file from an offset. The caller closes it.
type File struct {
	io.ReadCloser
	Type   string // media type
	Offset int64  // of the first byte
	Size   int64  // of the whole file, or -1 if it is unknown
}

func filesPath(agent string) string { return "/api/v1/admin/agents/" + segment(agent) + "/files" }

// Files returns the entries of a directory, relative to the working directory of an agent.
func (d Deployments) Files(ctx context.Context, agent, path string) ([]FileEntry, error) {
	body, err := get[struct {
		Entries jsonlimit.List[FileEntry] `json:"entries"`
	}](ctx, d.c, filesPath(agent), url.Values{"path": {path}})
	d.c.omit(filesPath(agent), body.Entries.Omitted)
	return body.Entries.Items, err
}

// Open returns a file of an agent from an offset. The audit log records it. The status of the error
// is 416 if the offset is not within the file.
func (d Deployments) Open(ctx context.Context, agent, path string, offset int64) (*File, error) {
	return d.c.open(ctx, withQuery(filesPath(agent)+"/content", url.Values{"path": {path}}), offset, false)
}

// open requests a file from an offset. If the server ignores the offset, so does the returned file.
func (c *Client) open(ctx context.Context, path string, offset int64, public bool) (*File, error) {
	r := request{method: http.MethodGet, path: path, accept: "*/*", header: http.Header{}, open: public}
	if offset > 0 {
		r.header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}

	res, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}

	file := &File{ReadCloser: res.Body, Type: res.Header.Get("Content-Type"), Size: res.ContentLength}
	if res.StatusCode == http.StatusPartialContent {
		first, size, ok := contentRange(res.Header.Get("Content-Range"))
		if !ok || first != offset {
			return nil, errors.Join(errors.New("read response of hub: it is another part of the file"), res.Body.Close())
		}

		file.Offset, file.Size = first, size
	}

	return file, nil
}

// contentRange returns the first byte and the size in "bytes 5-9/10", or a size of -1 if it is not
// known.
func contentRange(value string) (int64, int64, bool) {
	rest, ok := strings.CutPrefix(value, "bytes ")
	span, total, found := strings.Cut(rest, "/")
	begin, _, dash := strings.Cut(span, "-")
	first, err := strconv.ParseInt(begin, 10, 64)
	if !ok || !found || !dash || err != nil {
		return 0, 0, false
	}

	var size int64
	if size, err = strconv.ParseInt(total, 10, 64); err != nil {
		size = -1
	}

	return first, size, true
}
