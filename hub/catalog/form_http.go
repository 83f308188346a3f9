package catalog

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
)

const (
	filePart     = "file"
	maxFormField = 32 << 10 // bytes
	maxParts     = 32

	// formOverhead is what a form may have in addition to its file, in bytes.
	formOverhead = 256 << 10
)

// File is an uploaded file.
type File struct {
	Name    string // without a directory
	Content *artifact.Upload
}

// withForm reads a multipart form with a part "file" of at most most bytes, and calls do with the
// file and the other fields. The file is in a temporary file, not in memory.
func (s *Service) withForm(r *http.Request, most int64, do func(file File, fields map[string]string) error) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return api.UnsupportedMedia.New(`The body must be a form with the part "file": send "Content-Type: multipart/form-data; boundary=...".`)
	}
	upload, err := s.cfg.Artifacts.NewUpload()
	if err != nil {
		return err
	}
	defer func() { _ = upload.Close() }() // the content is stored, or not needed
	file := File{Content: upload}
	fields := map[string]string{}
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if err == io.EOF { //nolint:errorlint // that of a form without its end is wrapped
			break
		}
		if err == nil && n == maxParts {
			err = api.InvalidRequest.New(fmt.Sprintf("The form has more than %d parts.", maxParts))
		}
		if err == nil {
			err = readPart(part, &file, fields, most)
		}
		if err != nil {
			return formError(err)
		}
	}
	if file.Name == "" {
		return api.Fields{filePart: "must be a file with a name"}
	}
	// Only after the end of the body, the context of the request ends when the client leaves.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return formError(err)
	}
	return do(file, fields)
}

func readPart(part *multipart.Part, file *File, fields map[string]string, most int64) error {
	if part.FormName() == filePart {
		if file.Name != "" {
			return api.InvalidRequest.New(`The form has several parts "file": send one.`)
		}
		if file.Name = part.FileName(); file.Name == "" {
			return api.Fields{filePart: "must be a file with a name"}
		}
		if _, err := file.Content.ReadFrom(io.LimitReader(part, most+1)); err != nil {
			return err
		}
		if file.Content.Size() > most {
			return api.PayloadTooLarge.New(fmt.Sprintf("The file is too large: at most %d bytes are accepted.", most))
		}
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(part, maxFormField+1))
	if err == nil && len(text) > maxFormField {
		err = api.PayloadTooLarge.New(fmt.Sprintf("A field of the form is too large: at most %d bytes are accepted.", maxFormField))
	}
	fields[part.FormName()] = string(text)
	return err
}

// formError returns the response to an error of reading a form.
func formError(err error) error {
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, known := errors.AsType[*api.Error](err)
	_, invalid := errors.AsType[api.Fields](err)
	if large || known || invalid {
		return err
	}
	return &api.Error{Code: api.InvalidRequest, Message: "The form ended early or is malformed: send it again.", Cause: err}
}

// field returns a text field of a form, or nil if there is none.
func field(fields map[string]string, name string) *string {
	if value, ok := fields[name]; ok {
		return &value
	}
	return nil
}

// checkFileName returns an error if the file cannot be stored under its name, or has none of the
// extensions.
func checkFileName(name string, extensions ...string) error {
	if err := artifact.CheckName(name); err != nil {
		return api.ArtifactInvalid.New("The file cannot be stored: " + err.Error() + ".")
	}
	fields := api.Fields{}
	fields.Line("name", name, 1, len(name))
	if reason, invalid := fields["name"]; invalid {
		return api.ArtifactInvalid.New("The file cannot be stored: its name " + reason + ".")
	}
	if len(extensions) > 0 && !slices.ContainsFunc(extensions, func(e string) bool { return strings.HasSuffix(name, e) }) {
		return api.ArtifactInvalid.New("The name of the file must end with " + strings.Join(extensions, ", ") + ".")
	}
	return nil
}
