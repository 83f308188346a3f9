package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/upload"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	typePDF  = "application/pdf"
	typeText = "text/plain"
)

// mediaType returns the type of bytes: that of an image which models accept, PDF or text, and ""
// for others. An image is not decoded.
func mediaType(data []byte) string {
	begins := func(magic string) bool { return bytes.HasPrefix(data, []byte(magic)) }
	switch {
	case begins("\x89PNG\r\n\x1a\n"):
		return "image/png"
	case begins("\xff\xd8\xff"):
		return "image/jpeg"
	case begins("GIF87a"), begins("GIF89a"):
		return "image/gif"
	case begins("RIFF") && len(data) > 12 && string(data[8:12]) == "WEBP":
		return "image/webp"
	case begins("%PDF-"):
		return typePDF
	case len(data) > 0 && utf8.Valid(data) && !bytes.Contains(data, []byte{0}):
		return typeText
	}

	return ""
}

// isImage reports whether a type is that of an image which is not a text.
func isImage(media string) bool { return strings.HasPrefix(media, "image/") && !isText(media) }

// checkMedia returns the type of bytes, which must agree with the declared type unless that is "".
// Its error names the field.
func checkMedia(field, declared string, data []byte) (string, error) {
	found := mediaType(data)
	if found == "" {
		return "", invalid(field + ": neither a PNG, JPEG, GIF or WebP image, nor PDF, nor text in UTF-8")
	}

	most := runvalue.MaxFileBytes
	if isImage(found) {
		most = runvalue.MaxImageBytes
	}

	if len(data) > most {
		return "", invalid(fmt.Sprintf("%s: %s must have at most %d bytes", field, found, most))
	}

	media, _, err := mime.ParseMediaType(declared)
	switch {
	case declared == "" || err == nil && media == found:
		return found, nil
	case err == nil && found == typeText && isText(media):
		return media, nil
	}

	return "", invalid(fmt.Sprintf("%s: the type is %q, but the bytes are %s", field, declared, found))
}

// isText reports whether a type is that of a text.
func isText(media string) bool {
	name := strings.TrimPrefix(media, "application/")
	switch strings.TrimPrefix(name, "x-") {
	case "json", "xml", "yaml", "toml", "javascript", "sql", "sh":
		return name != media
	}

	_, suffix, _ := strings.Cut(media, "+")
	return strings.HasPrefix(media, "text/") || suffix == "json" || suffix == "xml" || suffix == "yaml"
}

// hasMessage reports whether a request has a message, with a text or with other parts.
func hasMessage(req *wire.RunRequest) bool {
	return strings.TrimSpace(req.Message) != "" || len(req.Content) > 0
}

// content is what the model receives of a request.
type content struct {
	uploads *upload.Store
	memory  *httpapi.Memory
	bytes   int // of the images and files so far

	parts   []model.Block // of the message, in addition to its text
	history []model.Message
	output  *engine.OutputSchema // nil for any text
}

// read reads the messages of a request, and the schema of its output.
func (c *content) read(e *engine.Engine, req *wire.RunRequest) error {
	c.history = historyMessages(req.History)
	for i := range req.History {
		blocks, err := c.blocks(fmt.Sprintf("history[%d].parts", i), req.History[i].Parts)
		if err != nil {
			return err
		}

		c.history[i].Content = append(c.history[i].Content, blocks...)
	}

	var err error
	if c.parts, err = c.blocks("content", req.Content); err != nil {
		return err
	}

	return c.readOutputSchema(e, req.OutputSchema)
}

// readOutputSchema reads the schema of the output of a run of an agent that has none.
func (c *content) readOutputSchema(e *engine.Engine, schema json.RawMessage) error {
	if len(schema) == 0 || string(schema) == "null" {
		return nil
	}

	if e.HasOutputSchema() {
		return invalid("outputSchema must not be set: the agent has its own")
	}

	var err error
	if c.output, err = engine.CompileOutputSchema(schema); err != nil {
		return invalid("outputSchema: " + err.Error())
	}

	return nil
}

// blocks returns the blocks of the parts of one message.
func (c *content) blocks(list string, parts []wire.ContentPart) ([]model.Block, error) {
	if len(parts) > runvalue.MaxParts {
		return nil, invalid(fmt.Sprintf("%s must have at most %d entries", list, runvalue.MaxParts))
	}

	var blocks []model.Block
	images, size := 0, 0
	for i := range parts {
		field := fmt.Sprintf("%s[%d]", list, i)
		b, err := c.block(field, &parts[i])
		if err != nil {
			return nil, err
		}

		if b.Type == model.BlockImage {
			images++
			size += b.Bytes()
		}

		c.bytes += b.Bytes()
		switch {
		case images > runvalue.MaxImages:
			return nil, invalid(fmt.Sprintf("%s: a message must have at most %d images", field, runvalue.MaxImages))
		case size > runvalue.MaxImagesBytes:
			return nil, invalid(fmt.Sprintf("%s: the images of a message must have at most %d bytes together", field, runvalue.MaxImagesBytes))
		case c.bytes > runvalue.MaxContentBytes:
			return nil, invalid(fmt.Sprintf("%s: the images and files of a request must have at most %d bytes together", field, runvalue.MaxContentBytes))
		}

		blocks = append(blocks, b)
	}

	return blocks, nil
}

// block returns the block of a part.
func (c *content) block(field string, p *wire.ContentPart) (model.Block, error) {
	if problem := partProblem(p); problem != "" {
		return model.Block{}, invalid(field + problem)
	}

	if p.Type == runvalue.PartText {
		return model.Block{Type: model.BlockText, Text: p.Text}, nil
	}

	data, name, declared := p.Data, p.Name, field+".data"
	if p.UploadID != "" {
		file, stored, err := c.uploads.Open(p.UploadID, c.memory.Add)
		if errors.Is(err, upload.ErrUnknown) {
			return model.Block{}, invalid(field + ".uploadId: unknown upload")
		}

		if err != nil {
			return model.Block{}, err
		}

		data, declared = stored, field+".uploadId"
		if name == "" {
			name = file.Name
		}
	}

	if p.MediaType != "" {
		declared = field + ".mediaType"
	}

	media, err := checkMedia(declared, p.MediaType, data)
	switch {
	case err != nil:
		return model.Block{}, err
	case isImage(media) != (p.Type == runvalue.PartImage):
		return model.Block{}, invalid(fmt.Sprintf("%s.type: the type is %s, but the bytes are %s", field, p.Type, media))
	case isImage(media):
		return model.Block{Type: model.BlockImage, Name: name, Images: []model.Image{{MediaType: media, Data: data}}}, nil
	case media == typePDF:
		return model.Block{Type: model.BlockFile, Name: name, PDF: data}, nil
	}

	return model.Block{Type: model.BlockFile, Name: name, Text: string(data)}, nil
}

// partProblem returns what is wrong with the fields of a part, or "".
func partProblem(p *wire.ContentPart) string {
	bytes := len(p.Data) > 0 || p.UploadID != ""
	switch p.Type {
	case runvalue.PartText:
		switch {
		case strings.TrimSpace(p.Text) == "":
			return ".text is required"
		case bytes || p.Name != "" || p.MediaType != "":
			return ": a text has no name, mediaType, data and uploadId"
		}

		return ""
	case runvalue.PartImage, runvalue.PartFile:
	default:
		return ".type must be text, image or file"
	}

	switch {
	case p.Text != "":
		return ".text is that of the type text"
	case !bytes:
		return ".data or uploadId is required"
	case len(p.Data) > 0 && p.UploadID != "":
		return ".data excludes uploadId"
	case !validName(p.Name):
		return ".name " + badName
	}

	return ""
}

// badName describes a name that is not valid.
var badName = fmt.Sprintf("must have at most %d bytes, without control characters", runvalue.MaxPartName)

func validName(name string) bool {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	return len(name) <= runvalue.MaxPartName && utf8.ValidString(name) && !strings.ContainsFunc(name, control)
}

// createUpload handles POST /v1/uploads.
func (rt *Runtime) createUpload(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("the query string is malformed")
	}

	name := query.Get("name")
	if !validName(name) {
		return invalid("name " + badName)
	}

	field, declared := "Content-Type", r.Header.Get("Content-Type")
	switch media, _, _ := mime.ParseMediaType(declared); media {
	case "", "application/octet-stream", "application/x-www-form-urlencoded": // curl sends the latter for any bytes
		field, declared = "the body", ""
	}

	memory := &httpapi.Memory{Reserve: rt.Reserve}
	defer memory.Release()
	data, err := memory.ReadBody(w, r, runvalue.MaxFileBytes)
	if err != nil {
		return err
	}

	media, err := checkMedia(field, declared, data)
	if err != nil {
		return err
	}

	u, err := rt.uploads.Put(upload.File{Name: name, MediaType: media}, data)
	if errors.Is(err, upload.ErrFull) {
		return errTooManyUploads
	}

	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusCreated, u)
}

// maxContentJSON is the size of the base64 of the images and files of a request.
const maxContentJSON = runvalue.MaxContentBytes / 3 * 4

// readRun reads the body of a run. MaxMessageBytes is its limit without the bytes of images and
// files.
func (rt *Runtime) readRun(w http.ResponseWriter, r *http.Request, memory *httpapi.Memory, req *wire.RunRequest) error {
	limit := rt.cfg.Limits.MaxMessageBytes
	data, err := memory.ReadBody(w, r, limit+maxContentJSON)
	if err != nil {
		return err
	}

	err = memory.ParseJSON(data, req)
	wrong, isBody := errors.AsType[*httpapi.BodyError](err)
	if isBody && (strings.HasPrefix(wrong.Field, "content[") || strings.HasPrefix(wrong.Field, "history[")) {
		return err // which names the part
	}

	encoded := contentJSON(req)
	if int64(len(data))-encoded > limit {
		return httpapi.ErrTooLarge
	}

	if err == nil {
		err = memory.Add(int(-encoded / 4 * 5)) // the body is released, the decoded bytes remain
	}

	return err
}

// contentJSON returns the bytes of the base64 in the body of a request.
func contentJSON(req *wire.RunRequest) int64 {
	size := 0
	add := func(parts []wire.ContentPart) {
		for i := range parts {
			size += (len(parts[i].Data) + 2) / 3 * 4
		}
	}
	add(req.Content)
	for i := range req.History {
		add(req.History[i].Parts)
	}

	return int64(size)
}
