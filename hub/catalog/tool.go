package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// MaxToolFile is the largest file of a custom tool, in bytes.
const MaxToolFile = 5 << 20

// Sources of tools.
const (
	sourceBuiltin = "builtin"
	sourceCustom  = "custom"
)

// Tool is a tool that agents can use. The file, the version and the times are those of custom
// tools.
type Tool struct {
	ID            string   `json:"id,omitempty"`
	Name          string   `json:"name"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	DescriptionEN string   `json:"descriptionEn"`
	Source        string   `json:"source"` // builtin or custom
	Status        string   `json:"status"` // ready or missing
	FileName      string   `json:"fileName,omitempty"`
	Hash          string   `json:"hash,omitempty"` // sha256:<hex>
	Size          int64    `json:"size,omitempty"` // bytes
	Version       int64    `json:"version,omitempty"`
	CreatedAt     api.Time `json:"createdAt,omitzero"`
	UpdatedAt     api.Time `json:"updatedAt,omitzero"`

	ref artifact.Ref
}

// ToolInput has the fields of a tool that are not read from its file. A nil field is not changed.
// Without a title, the title is the name.
type ToolInput struct {
	Title         *string `json:"title"`
	Description   *string `json:"description"`
	DescriptionEN *string `json:"descriptionEn"`
}

func (in ToolInput) apply(v Tool) (Tool, error) {
	fields := api.Fields{}
	v.Title = textField(fields.Line, "title", in.Title, v.Title, maxTitle)
	v.Description = textField(fields.Text, "description", in.Description, v.Description, maxDescription)
	v.DescriptionEN = textField(fields.Text, "descriptionEn", in.DescriptionEN, v.DescriptionEN, maxDescription)
	if v.Title == "" {
		v.Title = v.Name
	}
	return v, fields.Err()
}

// textField returns the checked value of a field, or its old value if the input has none.
func textField(check func(field, value string, least, most int) string, name string, value *string, old string, most int) string {
	if value == nil {
		return old
	}
	return check(name, *value, 0, most)
}

var errNoTool = api.NotFound.New("There is no such tool.")

// builtinTools returns the tools that every runtime has, sorted by name.
func builtinTools(query string) []Tool {
	var all []Tool
	for _, t := range agent.BuiltinTools() {
		if strings.Contains(searchText(t.Name, t.Title), strings.ToLower(query)) {
			all = append(all, Tool{Name: t.Name, Title: t.Title, Description: t.Description, DescriptionEN: t.DescriptionEN,
				Source: sourceBuiltin, Status: statusReady})
		}
	}
	return all
}

func isBuiltin(name string) bool {
	return slices.ContainsFunc(agent.BuiltinTools(), func(t agent.BuiltinTool) bool { return t.Name == name })
}

// Tools returns the built-in tools and those of the tenant, each sorted by name.
func (s *Service) Tools(ctx context.Context, caller api.Caller, page api.Page) (api.List[Tool], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[Tool]{}, err
	}
	builtin := builtinTools(page.Query)
	from := min(page.Offset(), len(builtin))
	to := min(page.Offset()+page.Size, len(builtin))
	custom, total, err := s.customTools(ctx, caller.TenantID, page.Query, page.Size-(to-from), max(0, page.Offset()-len(builtin)))
	if err != nil {
		return api.List[Tool]{}, err
	}
	if err := s.setToolStates(ctx, custom); err != nil {
		return api.List[Tool]{}, err
	}
	return api.List[Tool]{Items: slices.Concat(builtin[from:to], custom), Total: len(builtin) + total}, nil
}

// customTools returns a part of the custom tools that contain a text, and the number of all of
// them.
func (s *Service) customTools(ctx context.Context, tenantID, query string, limit, offset int) ([]Tool, int, error) {
	if query == "" {
		return toolsOf(ctx, s.store.Read(), tenantID, limit, offset)
	}
	sn, err := s.snapshot(ctx, tenantID)
	if err != nil {
		return nil, 0, err
	}
	names, total := sn.toolNames(query, limit, offset)
	if len(names) == 0 {
		return nil, total, nil
	}
	tools, err := toolsNamed(ctx, s.store.Read(), tenantID, names)
	return tools, total - (len(names) - len(tools)), err // without those that were deleted in the meantime
}

func (s *Service) setToolStates(ctx context.Context, tools []Tool) error {
	refs := make([]artifact.Ref, len(tools))
	for i, t := range tools {
		refs[i] = t.ref
	}
	states, err := s.states(ctx, refs...)
	for i, state := range states {
		tools[i].Status = state //nolint:gosec // one for each ref
	}
	return err
}

// Tool returns a tool, or api.NotFound.
func (s *Service) Tool(ctx context.Context, caller api.Caller, name string) (Tool, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Tool{}, err
	}
	for _, t := range builtinTools("") {
		if t.Name == name {
			return t, nil
		}
	}
	v, err := toolByName(ctx, s.store.Read(), caller.TenantID, name)
	if err != nil {
		return Tool{}, err
	}
	one := []Tool{v}
	err = s.setToolStates(ctx, one)
	return one[0], err
}

// OpenTool opens the file of a custom tool. It fails with api.NotFound if there is no such tool, or
// it is built in, or its file is missing.
func (s *Service) OpenTool(ctx context.Context, caller api.Caller, name string) (Tool, *artifact.Blob, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Tool{}, nil, err
	}
	if isBuiltin(name) {
		return Tool{}, nil, api.NotFound.New("A built-in tool has no file.")
	}
	v, err := toolByName(ctx, s.store.Read(), caller.TenantID, name)
	if err != nil {
		return Tool{}, nil, err
	}
	blob, err := s.cfg.Artifacts.Open(ctx, v.ref)
	if errors.Is(err, artifact.ErrNotExist) {
		err = api.NotFound.New("The file of the tool is missing: upload it again.")
	}
	return v, blob, err
}

// CreateTool creates a tool whose name is that in the file. It fails with api.ArtifactInvalid if
// the file does not load within limits or the name is not valid, and with api.NameTaken.
func (s *Service) CreateTool(ctx context.Context, caller api.Caller, in ToolInput, file File) (Tool, error) {
	name, err := s.toolName(ctx, caller, file)
	if err != nil {
		return Tool{}, err
	}
	if builtinNamed(name) {
		return Tool{}, api.NameTaken.New("The name " + name + " is that of a built-in tool: choose another.")
	}
	v, err := in.apply(Tool{Name: name, Source: sourceCustom, Status: statusReady, FileName: file.Name, Version: 1})
	if err != nil {
		return Tool{}, err
	}
	err = s.stored(ctx, file.Content, artifact.Tools, file.Name, func(ref artifact.Ref) error {
		return s.change(ctx, caller, func(tx *store.Tx) error {
			v.ID, v.CreatedAt = ids.New(), api.Time(tx.Now)
			v.UpdatedAt = v.CreatedAt
			v.setFile(ref)
			if err := checkRoom(ctx, tx); err != nil {
				return err
			}
			if err := insertTool(ctx, tx, caller.TenantID, v); err != nil {
				return err
			}
			tx.Record(actionCreateTool.Record(v.event(caller), v.detail()))
			return nil
		})
	})
	return v, err
}

func (v *Tool) setFile(ref artifact.Ref) {
	v.ref = ref
	v.FileName = ref.Name
	v.Hash = hashOf(ref)
	v.Size = ref.Size
}

var errNoCheck = api.Unavailable.New("This hub cannot check the files of tools: an operator must configure a worker for that.")

var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// toolName returns the name in the file of a tool. The check of the file ends with ctx.
func (s *Service) toolName(ctx context.Context, caller api.Caller, file File) (name string, err error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return "", err
	}
	if err := checkFileName(file.Name, ".ts", ".mts", ".js", ".mjs"); err != nil {
		return "", err
	}
	if s.cfg.CheckTool == nil {
		return "", errNoCheck
	}
	err = s.checked(ctx, caller, func() error {
		var source strings.Builder
		source.Grow(int(file.Content.Size()))
		if _, err := io.Copy(&source, file.Content.Content()); err != nil {
			return err
		}
		name, err = s.cfg.CheckTool(ctx, file.Name, source.String())
		return err
	})
	switch {
	case err != nil:
		return "", err
	case !toolName.MatchString(name):
		return "", api.ArtifactInvalid.New(fmt.Sprintf(
			"The file is not a tool: the name %s must begin with a letter and consist of at most 64 letters, digits, _ and -.",
			api.Plain(strconv.Quote(excerpt.Head(name, 80)))))
	}
	if err := agent.CheckToolName(name); err != nil && !builtinNamed(name) {
		return "", api.ArtifactInvalid.New("The file is not a tool: " + err.Error() + ".")
	}
	return name, nil
}

// builtinNamed reports whether a name differs from that of a built-in tool only in letter case.
func builtinNamed(name string) bool {
	return slices.ContainsFunc(agent.BuiltinTools(), func(t agent.BuiltinTool) bool { return strings.EqualFold(t.Name, name) })
}

// UpdateTool changes the texts of a tool. It fails with api.BuiltinReadonly, api.NotFound and
// api.PreconditionFailed.
func (s *Service) UpdateTool(ctx context.Context, caller api.Caller, name string, expected *int64, in ToolInput) (Tool, error) {
	if _, err := in.apply(Tool{}); err != nil {
		return Tool{}, err
	}
	return s.changeTool(ctx, caller, name, expected, func(tx *store.Tx, before Tool) (Tool, auditlog.Record, error) {
		v, err := in.apply(before)
		return v, actionUpdateTool.Record(v.event(caller), toolUpdateDetail{
			auditlog.Diff(before.Title, v.Title), auditlog.Diff(before.Description, v.Description), auditlog.Diff(before.DescriptionEN, v.DescriptionEN),
		}), err
	})
}

// ReplaceToolFile replaces the file of a tool. The name in the new file must be that of the tool,
// or it fails with api.ArtifactInvalid.
func (s *Service) ReplaceToolFile(ctx context.Context, caller api.Caller, name string, expected *int64, file File) (Tool, error) {
	if _, err := s.customTool(ctx, caller, name); err != nil {
		return Tool{}, err
	}
	inFile, err := s.toolName(ctx, caller, file)
	if err != nil {
		return Tool{}, err
	}
	if inFile != name {
		return Tool{}, api.ArtifactInvalid.New("The name in the file is " + inFile + " and not " + name + ": create another tool.")
	}
	var v Tool
	err = s.stored(ctx, file.Content, artifact.Tools, file.Name, func(ref artifact.Ref) (err error) {
		v, err = s.changeTool(ctx, caller, name, expected, func(tx *store.Tx, before Tool) (Tool, auditlog.Record, error) {
			v := before
			v.setFile(ref)
			return v, actionReplaceTool.Record(v.event(caller), fileReplaceDetail{
				auditlog.Diff(before.FileName, v.FileName), auditlog.Diff(before.Hash, v.Hash), auditlog.Diff(before.Size, v.Size),
			}), nil
		})
		return err
	})
	return v, err
}

// changeTool runs an update of a custom tool. Without a difference, the version stays.
func (s *Service) changeTool(ctx context.Context, caller api.Caller, name string, expected *int64,
	update func(*store.Tx, Tool) (Tool, auditlog.Record, error)) (v Tool, err error) {
	if isBuiltin(name) {
		return s.customTool(ctx, caller, name)
	}
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := toolByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}
		var entry auditlog.Record
		if v, entry, err = update(tx, before); err != nil {
			return err
		}
		if v == before {
			return store.ErrUnchanged
		}
		v.Version, v.UpdatedAt = v.Version+1, api.Time(tx.Now)
		if err := updateTool(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(entry)
		return nil
	})
	if err != nil {
		return Tool{}, err
	}
	one := []Tool{v}
	err = s.setToolStates(ctx, one)
	return one[0], err
}

// customTool returns a tool of the tenant that can be changed.
func (s *Service) customTool(ctx context.Context, caller api.Caller, name string) (Tool, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Tool{}, err
	}
	if isBuiltin(name) {
		return Tool{}, api.BuiltinReadonly
	}
	return toolByName(ctx, s.store.Read(), caller.TenantID, name)
}

// DeleteTool deletes a tool. It fails with api.ToolInUse if agents use it. Its file remains until
// no row names it.
func (s *Service) DeleteTool(ctx context.Context, caller api.Caller, name string) error {
	if _, err := s.customTool(ctx, caller, name); err != nil {
		return err
	}
	return s.change(ctx, caller, func(tx *store.Tx) error {
		v, err := toolByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		agents, err := agentsBound(ctx, tx, caller.TenantID, kindTool, name)
		if err != nil {
			return err
		}
		if err := inUse(api.ToolInUse, agents); err != nil {
			return err
		}
		if err := deleteTool(ctx, tx, caller.TenantID, v.ID); err != nil {
			return err
		}
		tx.Record(actionDeleteTool.Record(v.event(caller), v.detail()))
		return nil
	})
}

func (v Tool) event(caller api.Caller) auditlog.Event {
	return target(caller.Event(), targetTool, v.ID, v.Name)
}

func (v Tool) detail() fileDetail { return fileDetail{v.FileName, v.Hash, v.Size} }
