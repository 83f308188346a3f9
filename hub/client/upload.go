package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Tools reads and changes the tools that agents mount.
type Tools struct {
	collection[wire.Tool, wire.ToolUpdate]
}

// Skills reads and changes the skills that agents mount.
type Skills struct {
	collection[wire.Skill, wire.SkillUpdate]
	Ready reader[wire.Skill] // List and Get of those whose archive exists
}

// Upload is the file of a tool or a skill, with texts that replace those in the file unless they
// are empty.
type Upload struct {
	FileName      string
	Content       io.ReadSeeker // read again from its start if the request is repeated, and not after the call
	Type          string        // of a skill: expert or community
	Title         string
	Description   string
	DescriptionEn string
}

// Create uploads a new tool: a TypeScript or JavaScript file of at most 5 MiB.
func (t Tools) Create(ctx context.Context, file Upload) (wire.Tool, error) {
	return upload[wire.Tool](ctx, t.c, http.MethodPost, t.path, 0, file)
}

// Replace uploads the file of an existing tool. The version is as in [Catalog.Update].
func (t Tools) Replace(ctx context.Context, name string, version int64, file Upload) (wire.Tool, error) {
	return upload[wire.Tool](ctx, t.c, http.MethodPut, t.path+"/"+segment(name)+"/file", version, file)
}

// Download returns the file of a tool from an offset. The caller closes its content.
func (t Tools) Download(ctx context.Context, name string, offset int64) (*File, error) {
	return t.c.open(ctx, t.path+"/"+segment(name)+"/download", offset, false)
}

// Create uploads a new skill: a zip archive with a SKILL.md.
func (s Skills) Create(ctx context.Context, file Upload) (wire.Skill, error) {
	return upload[wire.Skill](ctx, s.c, http.MethodPost, s.path, 0, file)
}

// Replace uploads the archive of an existing skill. The version is as in [Catalog.Update].
func (s Skills) Replace(ctx context.Context, name string, version int64, file Upload) (wire.Skill, error) {
	return upload[wire.Skill](ctx, s.c, http.MethodPut, s.path+"/"+segment(name)+"/file", version, file)
}

// Link returns a link to the archive of a skill that is valid for an hour without a token.
func (s Skills) Link(ctx context.Context, name string) (wire.SkillLink, error) {
	return get[wire.SkillLink](ctx, s.c, "/api/v1/skills/"+segment(name)+"/download", nil)
}

// Download returns the archive of a skill from an offset. The caller closes its content.
func (s Skills) Download(ctx context.Context, name string, offset int64) (*File, error) {
	link, err := s.Link(ctx, name)
	if err != nil {
		return nil, err
	}

	return s.c.Artifact(ctx, link.URL, offset)
}

// Artifact returns the file behind a link of the hub from an offset. It sends no token, because the
// link may be that of another server. The caller closes its content.
func (c *Client) Artifact(ctx context.Context, link string, offset int64) (*File, error) {
	address, err := url.Parse(link)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" {
		return nil, errors.New("open artifact: the link is not an address of http or https")
	}

	return c.open(ctx, link, offset, true)
}

// upload sends a file as a form.
func upload[T any](ctx context.Context, c *Client, method, path string, version int64, file Upload) (T, error) {
	size, err := file.Content.Seek(0, io.SeekEnd)
	if err != nil {
		var result T
		return result, fmt.Errorf("read %s: %w", file.FileName, err)
	}

	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	for _, field := range [][2]string{
		{"type", file.Type}, {"title", file.Title}, {"description", file.Description}, {"descriptionEn", file.DescriptionEn},
	} {
		if field[1] != "" {
			_ = form.WriteField(field[0], field[1]) // a buffer does not fail
		}
	}

	name := strings.NewReplacer("\\", "\\\\", `"`, "\\\"", "\r", "", "\n", "").Replace(file.FileName)
	_, _ = form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="` + name + `"`}, "Content-Type": {"application/octet-stream"},
	})
	start := head.Len()
	_ = form.Close()
	var last *attempt
	defer func() { last.end() }()
	r := request{
		method: method, path: path, accept: jsonMedia, media: form.FormDataContentType(),
		length: int64(head.Len()) + size, header: http.Header{},
		body: func() io.Reader {
			last.end()
			_, _ = file.Content.Seek(0, io.SeekStart) // a read reports the error
			last = &attempt{form: io.MultiReader(bytes.NewReader(head.Bytes()[:start]), file.Content, bytes.NewReader(head.Bytes()[start:]))}
			return last
		},
	}
	r.match(version)
	return decode[T](ctx, c, r)
}

// attempt is the body of one request of an upload. A transport may read the body of a request after
// its response.
type attempt struct {
	mu   sync.Mutex // is held during a read of the file
	form io.Reader  // nil after the end
}

var errEnded = errors.New("the upload has ended, or is repeated")

func (a *attempt) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.form == nil {
		return 0, errEnded
	}

	return a.form.Read(p)
}

// end waits for a read in progress, and fails the later ones.
func (a *attempt) end() {
	if a == nil {
		return
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	a.form = nil
}
