package catalog

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/catalog/archive"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/skillzip"
	"github.com/seed93082962/agenthost/rbac"
)

// linkTTL is how long the link to a skill is valid.
const linkTTL = time.Hour

// Types of skills.
const (
	typeExpert    = "expert"
	typeCommunity = "community"
)

func skillFile(v wire.Skill) artifact.Ref {
	return fileOf(artifact.Skills, v.Name+".zip", v.Hash, v.Size)
}

func applySkill(fields api.Fields, in wire.SkillUpdate, v *wire.Skill) error {
	if in.Type != nil && *in.Type != "" {
		v.Type = *in.Type
	}

	if v.Type != "" && !isSkillType(v.Type) {
		fields.Add("type", "must be expert or community")
	}

	v.Title = textField(fields.Line, "title", in.Title, v.Title, maxTitle)
	v.Description = textField(fields.Text, "description", in.Description, v.Description, maxDescription)
	v.DescriptionEN = textField(fields.Text, "descriptionEn", in.DescriptionEN, v.DescriptionEN, maxDescription)
	return nil
}

func isSkillType(text string) bool { return text == typeExpert || text == typeCommunity }

var (
	actionCreateSkill  = auditlog.Define[skillDetail]("agent.create_skill")
	actionUpdateSkill  = auditlog.Define[skillUpdateDetail]("agent.update_skill")
	actionReplaceSkill = auditlog.Define[skillReplaceDetail]("agent.replace_file_skill")
	actionDeleteSkill  = auditlog.Define[skillDetail]("agent.delete_skill")
)

type (
	skillDetail struct {
		Type string `json:"type"`
		Hash string `json:"hash"`
		Size int64  `json:"size"`
	}
	skillUpdateDetail struct {
		Type          *auditlog.Change[string] `json:"type,omitempty"`
		Title         *auditlog.Change[string] `json:"title,omitempty"`
		Description   *auditlog.Change[string] `json:"description,omitempty"`
		DescriptionEN *auditlog.Change[string] `json:"descriptionEn,omitempty"`
	}
	skillReplaceDetail struct {
		Type          *auditlog.Change[string] `json:"type,omitempty"`
		Title         *auditlog.Change[string] `json:"title,omitempty"`
		Description   *auditlog.Change[string] `json:"description,omitempty"`
		DescriptionEN *auditlog.Change[string] `json:"descriptionEn,omitempty"`

		Hash *auditlog.Change[string] `json:"hash,omitempty"`
		Size *auditlog.Change[int64]  `json:"size,omitempty"`
	}
)

func (s *Service) skills() *Components[wire.Skill, wire.SkillUpdate] {
	return &Components[wire.Skill, wire.SkillUpdate]{
		s: s, kind: kindSkill, table: "skills", order: "name", path: "/api/v1/admin/skills",
		none: wire.NotFound.New("There is no such skill."), inUse: code.InUse, apply: applySkill,
		common: func(v *wire.Skill) *wire.Component { return &v.Component },
		columns: func(v *wire.Skill) []column {
			return []column{{"type", &v.Type}, {"description_en", &v.DescriptionEN}, {"hash", hashField{&v.Hash}}, {"size", &v.Size}}
		},
		show: func(ctx context.Context, all []wire.Skill, _ bool) error {
			states, err := statesOf(ctx, s.cfg.Artifacts, all, skillFile)
			for i, state := range states {
				all[i].Status = state
			}

			return err
		},
		create: recordOf[wire.Skill](actionCreateSkill), update: recordChanges[wire.Skill](actionUpdateSkill), remove: recordOf[wire.Skill](actionDeleteSkill),
	}
}

// SkillsOf returns a page of the skills of a type, or of all types for "".
func (s *Service) SkillsOf(ctx context.Context, caller api.Caller, kind string, page api.Page) (api.List[wire.Skill], error) {
	if kind == "" {
		return s.Skills.List(ctx, caller, page)
	}

	if !isSkillType(kind) {
		return api.List[wire.Skill]{}, wire.InvalidRequest.New("The parameter type must be expert or community.")
	}

	return s.Skills.list(ctx, caller, page, ofType, kind)
}

// LinkSkill returns a link to the archive of a skill that is valid for an hour. It fails with
// wire.NotFound if there is no such skill, or its archive is missing.
func (s *Service) LinkSkill(ctx context.Context, caller api.Caller, name string) (wire.SkillLink, error) {
	v, err := s.Skills.Get(ctx, caller, name)
	if err != nil {
		return wire.SkillLink{}, err
	}

	if v.Status != statusReady {
		return wire.SkillLink{}, wire.NotFound.New("The archive of the skill is missing: upload it again.")
	}

	url, expires, err := s.cfg.Artifacts.SignedURL(ctx, skillFile(v), linkTTL)
	return wire.SkillLink{URL: url, ExpiresAt: wire.Time{Time: expires}, Hash: v.Hash, Size: v.Size}, err
}

// CreateSkill creates a skill from a .zip, a .tar.gz or a SKILL.md. It fails with
// code.ArtifactInvalid, and with wire.NameTaken.
func (s *Service) CreateSkill(ctx context.Context, caller api.Caller, in wire.SkillUpdate, file File) (wire.Skill, error) {
	var v wire.Skill
	var err error
	err = s.withArchive(ctx, caller, file, func(found archive.Skill, zip *artifact.Upload) error {
		v = wire.Skill{Component: wire.Component{Name: found.Name, Description: found.Description}, Type: typeCommunity}
		if isSkillType(found.Type) {
			v.Type = found.Type
		}

		if v, err = s.Skills.applied(in, v); err != nil {
			return err
		}

		return s.stored(ctx, zip, artifact.Skills, skillFile(v).Name, func(ref artifact.Ref) error {
			v.Hash, v.Size = hashPrefix+ref.Hash, ref.Size
			v, err = s.Skills.insert(ctx, caller, v)
			return err
		})
	})
	v.Status = statusReady
	return v, err
}

// ReplaceSkillFile replaces the archive of a skill. The name in the new one must be that of the
// skill, or it fails with code.ArtifactInvalid. The type and the description are those of the
// input, otherwise those of the front matter if it has them.
func (s *Service) ReplaceSkillFile(ctx context.Context, caller api.Caller, name string, expected *int64, in wire.SkillUpdate, file File) (wire.Skill, error) {
	if _, err := s.Skills.Get(ctx, caller, name); err != nil {
		return wire.Skill{}, err // before the archive is checked
	}

	var v wire.Skill
	var err error
	err = s.withArchive(ctx, caller, file, func(found archive.Skill, zip *artifact.Upload) error {
		if found.Name != name {
			return code.ArtifactInvalid.New("The name of the uploaded skill is " + found.Name + " and not " + name + ": create another skill.")
		}

		return s.stored(ctx, zip, artifact.Skills, name+".zip", func(ref artifact.Ref) error {
			v, err = s.Skills.edit(ctx, caller, name, expected, recordChanges[wire.Skill](actionReplaceSkill), func(v wire.Skill) (wire.Skill, error) {
				v.Hash, v.Size = hashPrefix+ref.Hash, ref.Size
				if isSkillType(found.Type) {
					v.Type = found.Type
				}

				v.Description = cmp.Or(found.Description, v.Description)
				return s.Skills.applied(in, v)
			})
			return err
		})
	})
	v.Status = statusReady
	return v, err
}

// withArchive checks an upload, and calls do with its front matter and the archive to store.
func (s *Service) withArchive(ctx context.Context, caller api.Caller, file File, do func(archive.Skill, *artifact.Upload) error) error {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return err
	}

	if err := checkExtension(strings.ToLower(file.Name), ".zip", ".tar.gz", ".tgz", ".md"); err != nil {
		return err
	}

	zip, err := s.cfg.Artifacts.NewUpload()
	if err != nil {
		return err
	}

	defer func() { _ = zip.Close() }() // the content is stored, or not needed
	var found archive.Skill
	err = s.checks.Do(ctx, caller, func() (err error) {
		found, err = archive.Normalize(file.Content.Content(), file.Content.Size(), file.Name, s.cfg.TempDir, zip)
		return err
	})
	if e, ok := errors.AsType[*archive.Error](err); ok {
		return code.ArtifactInvalid.New("The file is not a skill: " + api.Plain(e.Error()) + ".")
	}

	if err != nil {
		return err
	}

	fields := api.Fields{}
	found.Description = fields.Text("description", found.Description, 0, maxDescription)
	if reason, invalid := fields["description"]; invalid {
		return code.ArtifactInvalid.New("The description in SKILL.md " + reason + ".")
	}

	for _, name := range found.Paths {
		fields.Line("path", name, 1, len(name))
		if reason, invalid := fields["path"]; invalid {
			return code.ArtifactInvalid.New("The file is not a skill: the path " + api.Plain(strconv.Quote(name)) + " " + reason + ".")
		}
	}

	return do(found, zip)
}

func (s *Service) skillRoutes() []api.Route {
	input := func(f form) wire.SkillUpdate {
		return wire.SkillUpdate{Type: f.field("type"), Title: f.field("title"), Description: f.field("description"), DescriptionEN: f.field("descriptionEn")}
	}
	create := func(r *http.Request, f form) (wire.Skill, error) {
		return s.CreateSkill(r.Context(), api.CallerOf(r), input(f), f.File)
	}
	replace := func(r *http.Request, expected *int64, f form) (wire.Skill, error) {
		return s.ReplaceSkillFile(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, input(f), f.File)
	}
	list := func(w http.ResponseWriter, r *http.Request) error {
		return api.ListOf(func(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.Skill], error) {
			return s.SkillsOf(ctx, caller, r.URL.Query().Get("type"), page)
		})(w, r)
	}
	return append(s.Skills.fileRoutes(list, skillzip.MaxPacked, create, replace),
		publicRoute("/api/v1/skills", list),
		publicRoute("/api/v1/skills/:name", showOf(s.Skills.Get)),
		publicRoute("/api/v1/skills/:name/download", showOf(s.LinkSkill)),
	)
}
