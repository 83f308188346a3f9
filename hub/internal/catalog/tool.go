package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/rbac"
)

// MaxToolFile is the largest file of a custom tool, in bytes.
const MaxToolFile = 5 << 20

// Sources of tools.
const (
	sourceBuiltin = "builtin"
	sourceCustom  = "custom"
)

func toolFile(v wire.Tool) artifact.Ref { return fileOf(artifact.Tools, v.FileName, v.Hash, v.Size) }

func applyTool(fields api.Fields, in wire.ToolUpdate, v *wire.Tool) error {
	v.Title = textField(fields.Line, "title", in.Title, v.Title, maxTitle)
	v.Description = textField(fields.Text, "description", in.Description, v.Description, maxDescription)
	v.DescriptionEN = textField(fields.Text, "descriptionEn", in.DescriptionEN, v.DescriptionEN, maxDescription)
	return nil
}

// textField returns the checked value of a field, or its old value if the input has none.
func textField(check func(field, value string, least, most int) string, name string, value *string, old string, most int) string {
	if value == nil {
		return old
	}

	return check(name, *value, 0, most)
}

var (
	actionCreateTool  = auditlog.Define[fileDetail]("agent.create_tool")
	actionUpdateTool  = auditlog.Define[toolUpdateDetail]("agent.update_tool")
	actionReplaceTool = auditlog.Define[fileReplaceDetail]("agent.replace_file_tool")
	actionDeleteTool  = auditlog.Define[fileDetail]("agent.delete_tool")
)

type (
	fileDetail struct {
		FileName string `json:"fileName"`
		Hash     string `json:"hash"`
		Size     int64  `json:"size"`
	}
	fileReplaceDetail struct {
		FileName *auditlog.Change[string] `json:"fileName,omitempty"`
		Hash     *auditlog.Change[string] `json:"hash,omitempty"`
		Size     *auditlog.Change[int64]  `json:"size,omitempty"`
	}
	toolUpdateDetail struct {
		Title         *auditlog.Change[string] `json:"title,omitempty"`
		Description   *auditlog.Change[string] `json:"description,omitempty"`
		DescriptionEN *auditlog.Change[string] `json:"descriptionEn,omitempty"`
	}
)

func (s *Service) tools() *Components[wire.Tool, wire.ToolUpdate] {
	builtin := make([]wire.Tool, len(builtintool.All()))
	for i, t := range builtintool.All() {
		builtin[i] = wire.Tool{
			Component:     wire.Component{Name: t.Name, Title: t.Title, Description: t.Description},
			DescriptionEN: t.DescriptionEN, Source: sourceBuiltin, Status: statusReady,
		}
	}

	return &Components[wire.Tool, wire.ToolUpdate]{
		s: s, kind: kindTool, table: "tools", order: "name", path: "/api/v1/admin/tools",
		none: wire.NotFound.New("There is no such tool."), inUse: code.ToolInUse, builtin: builtin, early: true, apply: applyTool,
		common: func(v *wire.Tool) *wire.Component { return &v.Component },
		columns: func(v *wire.Tool) []column {
			return []column{{"description_en", &v.DescriptionEN}, {"file_name", &v.FileName}, {"hash", hashField{&v.Hash}}, {"size", &v.Size}}
		},
		show: func(ctx context.Context, all []wire.Tool, _ bool) error {
			states, err := statesOf(ctx, s.cfg.Artifacts, all, toolFile)
			for i, state := range states {
				all[i].Source, all[i].Status = sourceCustom, state
			}

			return err
		},
		create: recordOf[wire.Tool](actionCreateTool), remove: recordOf[wire.Tool](actionDeleteTool), update: recordChanges[wire.Tool](actionUpdateTool),
	}
}

// OpenTool opens the file of a custom tool. It fails with wire.NotFound if there is no such tool,
// or it is built in, or its file is missing.
func (s *Service) OpenTool(ctx context.Context, caller api.Caller, name string) (wire.Tool, *blob.Blob, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return wire.Tool{}, nil, err
	}

	if s.Tools.builtinNamed(name) != nil {
		return wire.Tool{}, nil, wire.NotFound.New("A built-in tool has no file.")
	}

	v, err := s.Tools.named(ctx, s.store.Read(), caller.TenantID, name)
	if err != nil {
		return wire.Tool{}, nil, err
	}

	file, err := s.cfg.Artifacts.Open(ctx, toolFile(v))
	if errors.Is(err, blob.ErrNotExist) {
		err = wire.NotFound.New("The file of the tool is missing: upload it again.")
	}

	return v, file, err
}

// CreateTool creates a tool whose name is that in the file. It fails with code.ArtifactInvalid if
// the file does not load within limits or the name is not valid, and with wire.NameTaken.
func (s *Service) CreateTool(ctx context.Context, caller api.Caller, in wire.ToolUpdate, file File) (wire.Tool, error) {
	name, err := s.toolName(ctx, caller, file)
	if err != nil {
		return wire.Tool{}, err
	}

	if builtinNamed(name) {
		return wire.Tool{}, wire.NameTaken.New("The name " + name + " is that of a built-in tool: choose another.")
	}

	v, err := s.Tools.applied(in, wire.Tool{Component: wire.Component{Name: name}, FileName: file.Name})
	if err != nil {
		return wire.Tool{}, err
	}

	err = s.stored(ctx, file.Content, artifact.Tools, file.Name, func(ref artifact.Ref) error {
		v.Hash, v.Size = hashPrefix+ref.Hash, ref.Size
		v, err = s.Tools.insert(ctx, caller, v)
		return err
	})
	v.Source, v.Status = sourceCustom, statusReady
	return v, err
}

// ReplaceToolFile replaces the file of a tool. The name in the new file must be that of the tool,
// or it fails with code.ArtifactInvalid.
func (s *Service) ReplaceToolFile(ctx context.Context, caller api.Caller, name string, expected *int64, file File) (wire.Tool, error) {
	inFile, err := s.toolName(ctx, caller, file)
	if err != nil {
		return wire.Tool{}, err
	}

	if inFile != name {
		return wire.Tool{}, code.ArtifactInvalid.New("The name in the file is " + inFile + " and not " + name + ": create another tool.")
	}

	var v wire.Tool
	err = s.stored(ctx, file.Content, artifact.Tools, file.Name, func(ref artifact.Ref) error {
		v, err = s.Tools.edit(ctx, caller, name, expected, recordChanges[wire.Tool](actionReplaceTool), func(v wire.Tool) (wire.Tool, error) {
			v.FileName, v.Hash, v.Size = ref.Name, hashPrefix+ref.Hash, ref.Size
			return v, nil
		})
		return err
	})
	v.Source, v.Status = sourceCustom, statusReady
	return v, err
}

var errNoCheck = wire.Unavailable.New("This hub cannot check the files of tools: an operator must configure a worker for that.")

var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// toolName returns the name in the file of a tool. The check of the file ends with ctx.
func (s *Service) toolName(ctx context.Context, caller api.Caller, file File) (string, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return "", err
	}

	if err := checkFileName(file.Name); err != nil {
		return "", err
	}

	if err := checkExtension(file.Name, ".ts", ".mts", ".js", ".mjs"); err != nil {
		return "", err
	}

	if s.cfg.CheckTool == nil {
		return "", errNoCheck
	}

	var name string
	var err error
	err = s.checks.Do(ctx, caller, func() error {
		var source strings.Builder
		source.Grow(int(file.Content.Size()))
		if _, err := io.Copy(&source, file.Content.Content()); err != nil {
			return err
		}

		name, err = s.cfg.CheckTool(ctx, file.Name, source.String())
		return err
	})
	fault, invalid := errors.AsType[fileFault](err)
	_, known := errors.AsType[*wire.Error](err)
	switch {
	case invalid:
		return "", code.ArtifactInvalid.New("The file is not a tool: " + api.Plain(fault.FileFault()) + ".")
	case err != nil && !known && ctx.Err() == nil:
		return "", &wire.Error{Code: wire.Unavailable, Message: "The file cannot be checked now: the log of the hub has the reason.", Cause: err}
	case err != nil:
		return "", err
	case !toolName.MatchString(name):
		return "", code.ArtifactInvalid.New(fmt.Sprintf(
			"The file is not a tool: the name %s must begin with a letter and consist of at most 64 letters, digits, _ and -.",
			api.Plain(strconv.Quote(excerpt.Head(name, 80)))))
	}

	if err := builtintool.CheckName(name); err != nil && !builtinNamed(name) {
		return "", code.ArtifactInvalid.New("The file is not a tool: " + err.Error() + ".")
	}

	return name, nil
}

// fileFault is an error of Config.CheckTool for a file that is not a tool.
type fileFault interface {
	error
	FileFault() string
}

// builtinNamed reports whether a name differs from that of a built-in tool only in letter case.
func builtinNamed(name string) bool {
	return slices.ContainsFunc(builtintool.All(), func(t builtintool.Tool) bool { return strings.EqualFold(t.Name, name) })
}

func (s *Service) toolRoutes() []api.Route {
	input := func(f form) wire.ToolUpdate {
		return wire.ToolUpdate{Title: f.field("title"), Description: f.field("description"), DescriptionEN: f.field("descriptionEn")}
	}
	create := func(r *http.Request, f form) (wire.Tool, error) {
		return s.CreateTool(r.Context(), api.CallerOf(r), input(f), f.File)
	}
	replace := func(r *http.Request, expected *int64, f form) (wire.Tool, error) {
		return s.ReplaceToolFile(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, f.File)
	}
	download := adminRoute(http.MethodGet, s.Tools.path+"/:name/download", s.downloadTool)
	return append(s.Tools.fileRoutes(api.ListOf(s.Tools.List), MaxToolFile, create, replace), download)
}

func (s *Service) downloadTool(w http.ResponseWriter, r *http.Request) error {
	v, blob, err := s.OpenTool(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}

	defer func() { _ = blob.Close() }() // it was opened for reading
	content := filesafe.Content{
		Body: blob.Content, Name: v.FileName, Type: "application/octet-stream", Size: blob.Size, Modified: blob.Modified,
		ETag: `"` + v.Hash + `"`, CacheControl: "no-store",
	}
	status, err := content.Serve(w, r)
	switch {
	case err != nil:
		return fmt.Errorf("read tool: %w", err)
	case status == http.StatusPreconditionFailed:
		return wire.PreconditionFailed
	case status == http.StatusRequestedRangeNotSatisfiable:
		return &wire.Error{Code: wire.InvalidRequest, Status: status, Message: "The range is beyond the end of the file."}
	}

	return nil
}
