package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/internal/content"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// maxAttached is the largest number of images and files of a message.
const maxAttached = runvalue.MaxImages

// partBlock is a block of the content of a message of a user.
type partBlock struct {
	Type      string `json:"type"` // text, image or file
	Text      string `json:"text,omitempty"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Size      int    `json:"size,omitempty"`     // bytes
	UploadID  string `json:"uploadId,omitempty"` // of a file of the session
}

// checkParts adds the faults of the parts of a message that do not depend on bytes and uploads.
func checkParts(fields api.Fields, list string, parts []runtimewire.ContentPart) {
	attached := 0
	for i, p := range parts {
		field := fmt.Sprintf("%s[%d]", list, i)
		if p.Type != runvalue.PartText {
			attached++
		}

		switch {
		case i == runvalue.MaxParts:
			fields.Add(list, fmt.Sprintf("must have at most %d elements", runvalue.MaxParts))
			return
		case attached > maxAttached:
			fields.Add(field, fmt.Sprintf("must be absent: a message has at most %d images and files", maxAttached))
			return
		}

		if invalid, ok := errors.AsType[api.Fields](ofContent(content.CheckFields(field, content.Part(p)))); ok {
			for name, reason := range invalid {
				fields.Add(name, reason)
			}
		}

		if p.Text != relay.Clean(p.Text) {
			fields.Add(field+".text", "must be UTF-8 without NUL")
		}
	}
}

// reading reads the parts of messages: it checks bytes and uploads, and collects the files.
type reading struct {
	uploads map[string]file // that the messages name
	files   []namedFile
	bytes   int // of all images and files
}

// namedFile is a file with the field of a request that has it.
type namedFile struct {
	file

	field string
}

// readUploads reads the uploads that messages name.
func (s *Service) readUploads(ctx context.Context, ref reference, messages ...[]runtimewire.ContentPart) (*reading, error) {
	uploads, err := filesOf(ctx, s.store.Read(), ref.TenantID, ref.UserID, uploadsOf(messages))
	return &reading{uploads: uploads}, err
}

// uploadsOf returns the ids of the uploads that messages name.
func uploadsOf(messages [][]runtimewire.ContentPart) []string {
	var ids []string
	for _, parts := range messages {
		for _, p := range parts {
			if p.UploadID != "" {
				ids = append(ids, p.UploadID)
			}
		}
	}

	slices.Sort(ids)
	return slices.Compact(ids)
}

// fill sets the text and the content of a message with a text and parts, which checkParts has
// checked.
func (r *reading) fill(m *message, list, text string, parts []runtimewire.ContentPart) error {
	m.Text = text
	if len(parts) == 0 {
		return nil
	}

	var blocks []partBlock
	if text != "" {
		blocks = append(blocks, partBlock{Type: runvalue.PartText, Text: text})
	}

	var sum content.Sum
	for i := range parts {
		p, field := &parts[i], fmt.Sprintf("%s[%d]", list, i)
		if p.Type == runvalue.PartText {
			m.Text = relay.Paragraphs(m.Text, p.Text)
			blocks = append(blocks, partBlock{Type: p.Type, Text: p.Text})
			continue
		}

		f, err := r.file(field, p)
		if err == nil {
			err = content.CheckKind(field, p.Type, f.MediaType)
		}

		if err == nil {
			err = sum.Add(field, f.MediaType, f.Size)
		}

		r.bytes += f.Size
		if err == nil {
			err = content.CheckTotal(field, r.bytes)
		}

		if err != nil {
			return ofContent(err)
		}

		m.Files++
		r.files = append(r.files, namedFile{f, field})
		blocks = append(blocks, partBlock{Type: p.Type, Name: p.Name, MediaType: f.MediaType, Size: f.Size, UploadID: f.ID})
	}

	data, err := httpapi.Marshal(blocks)
	m.Content = string(data)
	return err
}

// file returns the file of a part.
func (r *reading) file(field string, p *runtimewire.ContentPart) (file, error) {
	declared := field + ".mediaType"
	if p.UploadID == "" {
		if p.MediaType == "" {
			declared = field + ".data"
		}

		media, err := content.CheckBytes(declared, p.MediaType, p.Data)
		return newFile(media, p.Data), err
	}

	f, found := r.uploads[p.UploadID]
	if !found {
		return f, unknownUpload(field)
	}

	_, err := content.Agree(declared, p.MediaType, f.MediaType)
	return f, err
}

// unknownUpload is the error of an upload that the user does not have.
func unknownUpload(field string) error {
	return api.Fields{field + ".uploadId": "must be the id of an upload of the last hour or of your chats: upload the file again"}
}

// titleOfFiles returns a title for a message without text.
func (m message) titleOfFiles() string {
	for _, b := range partsOf(m.Content) {
		if b.Name != "" {
			return titleOf(b.Name)
		}
	}

	return ""
}

// turn returns a message of a user as a turn.
func (m message) turn() runtimewire.Turn {
	return turnOf(m.Text, m.Content)
}

// partsOf decodes the content of a message with files.
func partsOf(stored string) []partBlock {
	var blocks []partBlock
	_ = jsonlimit.Unmarshal([]byte(stored), &blocks) // the hub has encoded it
	return blocks
}

// turnOf returns a message of a user, with a text and the content of one with files, as a turn. Its
// images and files have the ids of the hub, and no bytes.
func turnOf(text, stored string) runtimewire.Turn {
	turn := runtimewire.Turn{Role: roleUser, Content: text}
	if stored == "" {
		return turn
	}

	turn.Content = ""
	for i, b := range partsOf(stored) {
		if i == 0 && b.Type == runvalue.PartText {
			turn.Content = b.Text
			continue
		}

		turn.Parts = append(turn.Parts, runtimewire.ContentPart{Type: b.Type, Text: b.Text, Name: b.Name, MediaType: b.MediaType, UploadID: b.UploadID})
	}

	return turn
}

// join appends a turn of the user to another one. The files of turns with too many parts are
// omitted.
func join(a, b runtimewire.Turn) runtimewire.Turn {
	if len(a.Parts)+len(b.Parts) >= runvalue.MaxParts {
		a, b = withoutFiles(a), withoutFiles(b)
	}

	if len(a.Parts) == 0 {
		a.Content = relay.Paragraphs(a.Content, b.Content)
	} else if strings.TrimSpace(b.Content) != "" { // it follows the parts
		a.Parts = append(slices.Clip(a.Parts), runtimewire.ContentPart{Type: runvalue.PartText, Text: b.Content})
	}

	a.Parts = append(slices.Clip(a.Parts), b.Parts...)
	return a
}

// withoutFiles returns a turn whose parts are in its text.
func withoutFiles(turn runtimewire.Turn) runtimewire.Turn {
	for _, p := range turn.Parts {
		if p.Type != runvalue.PartText {
			p = omitted(p)
		}

		turn.Content = relay.Paragraphs(turn.Content, p.Text)
	}

	turn.Parts = nil
	return turn
}

// attach reads the bytes of the files of a request: those of its message first, and then those of
// its history from its end. One beyond the limits of the runtime, or that is no longer stored, is
// replaced by a text that says so. It calls hold with the bytes of all before it reads them.
func (s *Service) attach(ctx context.Context, in session, req *runtimewire.RunRequest, hold func(bytes int) error) error {
	messages := [][]runtimewire.ContentPart{req.Content}
	for _, turn := range slices.Backward(req.History) {
		messages = append(messages, turn.Parts)
	}

	files, err := filesIn(ctx, s.store.Read(), in, uploadsOf(messages))
	if err != nil {
		return err
	}

	left := runvalue.MaxContentBytes
	var attached []*runtimewire.ContentPart
	for _, parts := range messages {
		var sum content.Sum
		for i := range slices.Backward(parts) {
			p := &parts[i]
			if p.UploadID == "" { // a text, or of a client that carries the conversation
				left -= len(p.Data)
				continue
			}

			f, found := files[p.UploadID]
			if !found || f.Size > left || sum.Add("", f.MediaType, f.Size) != nil {
				*p = omitted(*p)
				continue
			}

			left -= f.Size
			attached = append(attached, p)
		}
	}

	if err := hold(runvalue.MaxContentBytes - left); err != nil {
		return err
	}

	for _, p := range attached {
		data, err := readFile(ctx, s.store.Read(), in, p.UploadID)
		switch {
		case errors.Is(err, errNoFile): // the chat was deleted in the meantime, which ends the answer
			*p = omitted(*p)
		case err != nil:
			return err
		default:
			p.Data, p.UploadID = data, ""
		}
	}

	return nil
}

// omitted returns the text in place of an image or a file that is not sent, as that of a runtime.
func omitted(p runtimewire.ContentPart) runtimewire.ContentPart {
	return runtimewire.ContentPart{Type: runvalue.PartText, Text: "[" + strings.TrimSpace("The "+p.Type+" "+p.Name) + " was left out.]"}
}
