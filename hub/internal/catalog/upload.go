package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
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

// form is a form with a file. The file is in a temporary file, not in memory.
type form struct {
	File

	fields map[string]string
}

// field returns a text field of a form, or nil if there is none.
func (f form) field(name string) *string {
	if value, ok := f.fields[name]; ok {
		return &value
	}

	return nil
}

// fileRoutes returns the routes of a kind whose components are created from a form with a file of
// at most most bytes.
func (c *Components[T, In]) fileRoutes(list api.Handler, most int64, create func(*http.Request, form) (T, error),
	replace func(r *http.Request, expected *int64, f form) (T, error)) []api.Route {
	post := adminRoute(http.MethodPost, c.path, api.Result(http.StatusCreated, func(r *http.Request) (v T, err error) {
		err = c.s.withForm(r, most, func(f form) error {
			v, err = create(r, f)
			return err
		})
		return v, err
	}))
	put := adminRoute(http.MethodPut, c.path+"/:name/file", api.Result(http.StatusOK, func(r *http.Request) (v T, err error) {
		expected, err := api.IfMatch(r)
		if err != nil {
			return v, err
		}

		if c.early {
			if _, err := c.own(r.Context(), c.s.store.Read(), api.CallerOf(r).TenantID, r.PathValue("name")); err != nil {
				return v, err
			}
		}

		err = c.s.withForm(r, most, func(f form) error {
			v, err = replace(r, expected, f)
			return err
		})
		return v, err
	}))
	post.BodyLimit, put.BodyLimit = most+formOverhead, most+formOverhead
	return append(c.commonRoutes(list), post, put)
}

// withForm reads a multipart form with a part "file" of at most most bytes, and calls do with it.
func (s *Service) withForm(r *http.Request, most int64, do func(form) error) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return code.UnsupportedMedia.New(`The body must be a form with the part "file": send "Content-Type: multipart/form-data; boundary=...".`)
	}

	if err := api.TakeMemory(r, formOverhead); err != nil {
		return err
	}

	upload, err := s.cfg.Artifacts.NewUpload()
	if err != nil {
		return err
	}

	defer func() { _ = upload.Close() }() // the content is stored, or not needed
	f := form{File: File{Content: upload}, fields: map[string]string{}}
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if err == io.EOF { //nolint:errorlint // that of a form without its end is wrapped
			break
		}

		if err == nil && n == maxParts {
			err = wire.InvalidRequest.New(fmt.Sprintf("The form has more than %d parts.", maxParts))
		}

		if err == nil {
			err = f.readPart(part, most)
		}

		if err != nil {
			return formError(err)
		}
	}

	if f.Name == "" {
		return api.Fields{filePart: "must be a file with a name"}
	}

	// Only after the end of the body, the context of the request ends when the client leaves.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return formError(err)
	}

	return do(f)
}

func (f *form) readPart(part *multipart.Part, most int64) error {
	if part.FormName() == filePart {
		if f.Name != "" {
			return wire.InvalidRequest.New(`The form has several parts "file": send one.`)
		}

		if f.Name = part.FileName(); f.Name == "" {
			return api.Fields{filePart: "must be a file with a name"}
		}

		if _, err := f.Content.ReadFrom(io.LimitReader(part, most+1)); err != nil {
			return err
		}

		if f.Content.Size() > most {
			return code.PayloadTooLarge.New(fmt.Sprintf("The file is too large: at most %d bytes are accepted.", most))
		}

		return nil
	}

	text, err := io.ReadAll(io.LimitReader(part, maxFormField+1))
	if err == nil && len(text) > maxFormField {
		err = code.PayloadTooLarge.New(fmt.Sprintf("A field of the form is too large: at most %d bytes are accepted.", maxFormField))
	}

	f.fields[part.FormName()] = string(text)
	return err
}

// formError returns the response to an error of reading a form.
func formError(err error) error {
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, known := errors.AsType[*wire.Error](err)
	_, invalid := errors.AsType[api.Fields](err)
	if large || known || invalid {
		return err
	}

	return &wire.Error{Code: wire.InvalidRequest, Message: "The form ended early or is malformed: send it again.", Cause: err}
}

// checkFileName returns an error if a file cannot be stored under its name.
func checkFileName(name string) error {
	if err := artifact.CheckName(name); err != nil {
		return code.ArtifactInvalid.New("The file cannot be stored: " + err.Error() + ".")
	}

	fields := api.Fields{}
	fields.Line("name", name, 1, len(name))
	if reason, invalid := fields["name"]; invalid {
		return code.ArtifactInvalid.New("The file cannot be stored: its name " + reason + ".")
	}

	return nil
}

// checkExtension returns an error if the name of a file ends with none of the extensions.
func checkExtension(name string, extensions ...string) error {
	if !slices.ContainsFunc(extensions, func(e string) bool { return strings.HasSuffix(name, e) }) {
		return code.ArtifactInvalid.New("The name of the file must end with " + strings.Join(extensions, ", ") + ".")
	}

	return nil
}

// States of a custom tool or a skill.
const (
	statusReady   = "ready"
	statusMissing = "missing" // the file no longer exists
)

// statesOf returns the status of the file of each component.
func statesOf[T any](ctx context.Context, store *artifact.Store, all []T, file func(T) artifact.Ref) ([]string, error) {
	files := make([]artifact.Ref, len(all))
	for i, v := range all {
		files[i] = file(v)
	}

	exist, err := store.Exist(ctx, files...)
	if err != nil {
		return nil, err
	}

	states := make([]string, len(all))
	for i := range states {
		states[i] = statusMissing
		if exist[i] {
			states[i] = statusReady
		}
	}

	return states, nil
}

// stored stores a file, runs change, which commits a row that names it, and confirms that no sweep
// deleted the file before there was the row.
func (s *Service) stored(ctx context.Context, u *artifact.Upload, kind artifact.Purpose, name string, change func(artifact.Ref) error) error {
	ref, err := u.Commit(ctx, kind, name)
	if err != nil {
		return err
	}

	if err := change(ref); err != nil {
		return err
	}

	// The row is committed: the upload succeeded even if the file cannot be confirmed now.
	if exist, err := s.cfg.Artifacts.Exist(ctx, ref); err != nil || exist[0] {
		return nil //nolint:nilerr // see above
	}

	_, err = u.Commit(ctx, kind, name)
	return err
}

// Referenced reports which keys a tool or a skill of any tenant names, for [artifact.Store.Sweep].
func (s *Service) Referenced(ctx context.Context, keys []string) (map[string]bool, error) {
	named := map[string]bool{}
	if len(keys) == 0 {
		return named, nil
	}

	used, err := usedKeys(ctx, s.store.Read(), keys)
	for _, key := range used {
		named[key] = true
	}

	return named, err
}
