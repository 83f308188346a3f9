package openai

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// content is a text, or a list of parts.
type content struct {
	text  string
	parts []wire.ContentPart // images and files, and the texts after the first of them
}

// part is one part of a content. Its type names the fields that it has.
type part struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`

	ImageURL imageURL `json:"image_url"`
	FileID   string   `json:"file_id"`
	inlineFile
	File inlineFile `json:"file"` // in chat completions
}

// inlineFile is a file in a request.
type inlineFile struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"` // base64, or a data URL
	FileURL  string `json:"file_url"`
	ID       string `json:"file_id"`
}

// imageURL is the URL of an image.
type imageURL string

// UnmarshalJSON decodes a string or null, or the object of chat completions.
func (u *imageURL) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return jsonlimit.Unmarshal(data, (*string)(u))
	}

	var object struct {
		URL string `json:"url"`
	}
	err := jsonlimit.Unmarshal(data, &object)
	*u = imageURL(object.URL)
	return err
}

// UnmarshalJSON decodes a string, null or an array of parts.
func (c *content) UnmarshalJSON(data []byte) error {
	*c = content{}
	if data[0] != '[' {
		return jsonlimit.Unmarshal(data, &c.text)
	}

	var parts []part
	if err := jsonlimit.Unmarshal(data, &parts); err != nil {
		return err
	}

	var texts []string
	for i := range parts {
		p, field, err := parts[i].read()
		switch {
		case err != nil:
			return &jsonlimit.Error{Field: fmt.Sprintf("[%d].%s", i, field), Message: err.Error()}
		case p.Type == runvalue.PartText && len(c.parts) == 0:
			texts = append(texts, p.Text)
		case p.Type != runvalue.PartText || strings.TrimSpace(p.Text) != "":
			c.parts = append(c.parts, p)
		}
	}

	c.text = strings.Join(texts, paragraph)
	return nil
}

var errNotInline = errors.New("is not supported: the server fetches nothing, send the bytes as a data URL")

// read returns the part of a message. The error is that of the field.
func (p *part) read() (wire.ContentPart, string, error) {
	switch p.Type {
	case "text", "input_text", "output_text":
		return wire.ContentPart{Type: runvalue.PartText, Text: p.Text}, "", nil
	case "refusal":
		return wire.ContentPart{Type: runvalue.PartText, Text: p.Refusal}, "", nil
	case "input_image", "image_url":
		if p.FileID != "" {
			return wire.ContentPart{}, "file_id", errNotInline
		}

		out, err := inline(runvalue.PartImage, string(p.ImageURL))
		return out, "image_url", err
	case "input_file", "file":
		file, path := p.inlineFile, ""
		if file.ID = p.FileID; p.Type == "file" {
			file, path = p.File, "file."
		}

		return file.read(path)
	}

	return wire.ContentPart{}, "type", errors.New("must be that of a text, an image or a file")
}

// read returns the part of a file.
func (f *inlineFile) read(path string) (wire.ContentPart, string, error) {
	switch {
	case f.ID != "":
		return wire.ContentPart{}, path + "file_id", errNotInline
	case f.FileURL != "":
		return wire.ContentPart{}, path + "file_url", errNotInline
	}

	url := f.FileData
	if !strings.HasPrefix(url, dataScheme) {
		url = dataScheme + dataBase64 + url
	}

	out, err := inline(runvalue.PartFile, url)
	out.Name = f.Filename
	if strings.HasPrefix(out.MediaType, "image/") {
		out.Type = runvalue.PartImage
	}

	return out, path + "file_data", err
}

const (
	dataScheme = "data:"
	dataBase64 = ";base64,"
)

// inline returns the part with the bytes of a data URL.
func inline(kind, url string) (wire.ContentPart, error) {
	rest, ok := strings.CutPrefix(url, dataScheme)
	if !ok {
		return wire.ContentPart{}, errNotInline
	}

	media, text, ok := strings.Cut(rest, dataBase64)
	data, err := base64.StdEncoding.DecodeString(text)
	switch {
	case !ok || strings.Contains(media, ","):
		return wire.ContentPart{}, errors.New("must be a data URL in base64")
	case err != nil:
		return wire.ContentPart{}, errors.New("is not base64")
	case len(data) == 0:
		return wire.ContentPart{}, errors.New("has no bytes")
	}

	return wire.ContentPart{Type: kind, MediaType: media, Data: data}, nil
}

// contentBytes returns the decoded bytes of the images and files.
func (c *content) contentBytes() int {
	size := 0
	for i := range c.parts {
		size += len(c.parts[i].Data)
	}

	return size
}

// textOnly returns the text, or an error if there are images or files.
func (c *content) textOnly() (string, error) {
	if len(c.parts) > 0 {
		return "", errors.New("must have texts only")
	}

	return c.text, nil
}

// maxContent is the size of the images and files of a request, in base64.
const maxContent = runvalue.MaxContentBytes / 3 * 4

// readJSON reads the body of a request. MaxBytes is its limit without its images and files.
func (s *server) readJSON(w http.ResponseWriter, r *http.Request, memory *httpapi.Memory, v interface{ contentBytes() int }) error {
	data, err := memory.ReadBody(w, r, s.cfg.MaxBytes+maxContent)
	if err != nil {
		return err
	}

	err = memory.ParseJSON(data, v)
	if body, ok := errors.AsType[*httpapi.BodyError](err); ok && strings.Contains(body.Field, ".content[") {
		return err // which names the part
	}

	size := int64(v.contentBytes())
	if int64(len(data))-(size+2)/3*4 > s.cfg.MaxBytes {
		return httpapi.ErrTooLarge
	}

	if err == nil {
		err = memory.Add(int(-size / 3 * 5)) // the body is released, the decoded bytes remain
	}

	return err
}

// contentBytes returns the decoded bytes of the images and files of a request.
func (req *responsesRequest) contentBytes() int {
	size := 0
	for i := range req.Input {
		size += req.Input[i].Content.contentBytes() + req.Input[i].Output.contentBytes()
	}

	return size
}

// contentBytes returns the decoded bytes of the images and files of a request.
func (req *chatRequest) contentBytes() int {
	size := 0
	for i := range req.Messages {
		size += req.Messages[i].Content.contentBytes()
	}

	return size
}
