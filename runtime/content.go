package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/content"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/upload"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// hasMessage reports whether a request has a message, with a text or with other parts.
func hasMessage(req *wire.RunRequest) bool {
	return strings.TrimSpace(req.Message) != "" || len(req.Content) > 0
}

// contents are what the model receives of a request.
type contents struct {
	uploads *upload.Store
	memory  *httpapi.Memory
	bytes   int // of the images and files so far

	parts   []model.Block // of the message, in addition to its text
	history []model.Message
	output  *engine.OutputSchema // nil for any text
}

// read reads the messages of a request, and the schema of its output.
func (c *contents) read(e *engine.Engine, req *wire.RunRequest) error {
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
func (c *contents) readOutputSchema(e *engine.Engine, schema json.RawMessage) error {
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

	return c.memory.Add(c.output.Size())
}

// blocks returns the blocks of the parts of one message.
func (c *contents) blocks(list string, parts []wire.ContentPart) ([]model.Block, error) {
	if len(parts) > runvalue.MaxParts {
		return nil, invalid(fmt.Sprintf("%s must have at most %d entries", list, runvalue.MaxParts))
	}

	var blocks []model.Block
	var sum content.Sum
	for i := range parts {
		field := fmt.Sprintf("%s[%d]", list, i)
		b, media, err := c.block(field, &parts[i])
		if err == nil && media != "" {
			err = sum.Add(field, media, b.Bytes())
		}

		c.bytes += b.Bytes()
		if err == nil {
			err = content.CheckTotal(field, c.bytes)
		}

		if err != nil {
			return nil, ofContent(err)
		}

		blocks = append(blocks, b)
	}

	return blocks, nil
}

// block returns the block of a part, and the type of its bytes.
func (c *contents) block(field string, p *wire.ContentPart) (model.Block, string, error) {
	if err := content.CheckFields(field, content.Part(*p)); err != nil {
		return model.Block{}, "", err
	}

	if p.Type == runvalue.PartText {
		return model.Block{Type: model.BlockText, Text: p.Text}, "", nil
	}

	data, name, declared := p.Data, p.Name, field+".data"
	if p.UploadID != "" {
		file, stored, err := c.uploads.Open(p.UploadID, c.memory.Add)
		if errors.Is(err, upload.ErrUnknown) {
			return model.Block{}, "", invalid(field + ".uploadId: unknown upload")
		}

		if err != nil {
			return model.Block{}, "", err
		}

		data, declared = stored, field+".uploadId"
		if name == "" {
			name = file.Name
		}
	}

	if p.MediaType != "" {
		declared = field + ".mediaType"
	}

	media, err := content.CheckBytes(declared, p.MediaType, data)
	if err == nil {
		err = content.CheckKind(field, p.Type, media)
	}

	switch {
	case err != nil:
		return model.Block{}, "", err
	case content.IsImage(media):
		return model.Block{Type: model.BlockImage, Name: name, Images: []model.Image{{MediaType: media, Data: data}}}, media, nil
	case media == content.PDF:
		return model.Block{Type: model.BlockFile, Name: name, PDF: data}, media, nil
	}

	return model.Block{Type: model.BlockFile, Name: name, Text: string(data)}, media, nil
}

// ofContent returns the error of a request for the fault of its content.
func ofContent(err error) error {
	if fault, ok := errors.AsType[*content.Error](err); ok {
		return invalid(fault.Error())
	}

	return err
}

// createUpload handles POST /v1/uploads.
func (rt *Runtime) createUpload(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("the query string is malformed")
	}

	name := query.Get("name")
	if err := content.CheckName("name", name); err != nil {
		return ofContent(err)
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

	media, err := content.CheckBytes(field, declared, data)
	if err != nil {
		return ofContent(err)
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
