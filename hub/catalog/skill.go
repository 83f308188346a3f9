package catalog

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/catalog/archive"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// linkTTL is how long the link to a skill is valid.
const linkTTL = time.Hour

// Types of skills.
const (
	typeExpert    = "expert"
	typeCommunity = "community"
)

// Skill is an archive with a SKILL.md.
type Skill struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Type          string   `json:"type"` // expert or community
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	DescriptionEN string   `json:"descriptionEn"`
	Status        string   `json:"status"` // ready or missing
	Hash          string   `json:"hash"`   // sha256:<hex> of the archive behind the link
	Size          int64    `json:"size"`   // bytes of the archive
	Version       int64    `json:"version"`
	CreatedAt     api.Time `json:"createdAt"`
	UpdatedAt     api.Time `json:"updatedAt"`

	ref artifact.Ref
}

// SkillInput has the fields of a skill that an upload or a change sets. A nil field is not changed,
// or is that of the front matter if a file is uploaded. Without a title, the title is the name.
type SkillInput struct {
	Type          *string `json:"type"`
	Title         *string `json:"title"`
	Description   *string `json:"description"`
	DescriptionEN *string `json:"descriptionEn"`
}

func (in SkillInput) apply(v Skill) (Skill, error) {
	fields := api.Fields{}
	if in.Type != nil && *in.Type != "" {
		v.Type = *in.Type
	}
	if v.Type != "" && !isSkillType(v.Type) {
		fields.Add("type", "must be expert or community")
	}
	v.Title = textField(fields.Line, "title", in.Title, v.Title, maxTitle)
	v.Description = textField(fields.Text, "description", in.Description, v.Description, maxDescription)
	v.DescriptionEN = textField(fields.Text, "descriptionEn", in.DescriptionEN, v.DescriptionEN, maxDescription)
	if v.Title == "" {
		v.Title = v.Name
	}
	return v, fields.Err()
}

func isSkillType(text string) bool { return text == typeExpert || text == typeCommunity }

// SkillLink is a link to the archive of a skill, which needs no other credential.
type SkillLink struct {
	URL       string   `json:"url"`
	ExpiresAt api.Time `json:"expiresAt"`
	Hash      string   `json:"hash"`
	Size      int64    `json:"size"`
}

var errNoSkill = api.NotFound.New("There is no such skill.")

// Skills returns the skills of the tenant, sorted by name. kind is a type, or "" for all.
func (s *Service) Skills(ctx context.Context, caller api.Caller, kind string, page api.Page) (api.List[Skill], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[Skill]{}, err
	}
	if kind != "" && !isSkillType(kind) {
		return api.List[Skill]{}, api.InvalidRequest.New("The parameter type must be expert or community.")
	}
	skills, total, err := skillsOf(ctx, s.store.Read(), caller.TenantID, kind, page)
	if err == nil {
		err = s.setSkillStates(ctx, skills)
	}
	return api.List[Skill]{Items: skills, Total: total}, err
}

func (s *Service) setSkillStates(ctx context.Context, skills []Skill) error {
	refs := make([]artifact.Ref, len(skills))
	for i, v := range skills {
		refs[i] = v.ref
	}
	states, err := s.states(ctx, refs...)
	for i, state := range states {
		skills[i].Status = state //nolint:gosec // one for each ref
	}
	return err
}

// Skill returns a skill, or api.NotFound.
func (s *Service) Skill(ctx context.Context, caller api.Caller, name string) (Skill, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Skill{}, err
	}
	v, err := skillByName(ctx, s.store.Read(), caller.TenantID, name)
	if err != nil {
		return Skill{}, err
	}
	one := []Skill{v}
	err = s.setSkillStates(ctx, one)
	return one[0], err
}

// LinkSkill returns a link to the archive of a skill that is valid for an hour. It fails with
// api.NotFound if there is no such skill, or its archive is missing.
func (s *Service) LinkSkill(ctx context.Context, caller api.Caller, name string) (SkillLink, error) {
	v, err := s.Skill(ctx, caller, name)
	if err != nil {
		return SkillLink{}, err
	}
	if v.Status != statusReady {
		return SkillLink{}, api.NotFound.New("The archive of the skill is missing: upload it again.")
	}
	url, expires, err := s.cfg.Artifacts.SignedURL(ctx, v.ref, linkTTL)
	return SkillLink{url, api.Time(expires), v.Hash, v.Size}, err
}

// CreateSkill creates a skill from a .zip, a .tar.gz or a SKILL.md. It fails with
// api.ArtifactInvalid, and with api.NameTaken.
func (s *Service) CreateSkill(ctx context.Context, caller api.Caller, in SkillInput, file File) (Skill, error) {
	var v Skill
	err := s.withArchive(ctx, caller, file, func(found archive.Skill, zip *artifact.Upload) error {
		skill := Skill{Name: found.Name, Description: found.Description, Type: typeCommunity, Status: statusReady, Version: 1}
		if isSkillType(found.Type) {
			skill.Type = found.Type
		}
		skill, err := in.apply(skill)
		if err != nil {
			return err
		}
		return s.stored(ctx, zip, artifact.Skills, skill.Name+".zip", func(ref artifact.Ref) error {
			return s.change(ctx, caller, func(tx *store.Tx) error {
				v = skill
				v.ID, v.CreatedAt = ids.New(), api.Time(tx.Now)
				v.UpdatedAt = v.CreatedAt
				v.setFile(ref)
				if err := checkRoom(ctx, tx); err != nil {
					return err
				}
				if err := insertSkill(ctx, tx, caller.TenantID, v); err != nil {
					return err
				}
				tx.Record(actionCreateSkill.Record(v.event(caller), v.detail()))
				return nil
			})
		})
	})
	return v, err
}

func (v *Skill) setFile(ref artifact.Ref) { v.ref, v.Hash, v.Size = ref, hashOf(ref), ref.Size }

// withArchive checks an upload, and calls do with its front matter and the archive to store.
func (s *Service) withArchive(ctx context.Context, caller api.Caller, file File, do func(archive.Skill, *artifact.Upload) error) error {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return err
	}
	zip, err := s.cfg.Artifacts.NewUpload()
	if err != nil {
		return err
	}
	defer func() { _ = zip.Close() }() // the content is stored, or not needed
	var found archive.Skill
	err = s.checked(ctx, caller, func() (err error) {
		found, err = archive.Normalize(file.Content.Content(), file.Content.Size(), file.Name, s.cfg.TempDir, zip)
		return err
	})
	if e, ok := errors.AsType[*archive.Error](err); ok {
		return api.ArtifactInvalid.New("The file is not a skill: " + api.Plain(e.Error()) + ".")
	}
	if err != nil {
		return err
	}
	fields := api.Fields{}
	found.Description = fields.Text("description", found.Description, 0, maxDescription)
	if reason, invalid := fields["description"]; invalid {
		return api.ArtifactInvalid.New("The description in SKILL.md " + reason + ".")
	}
	for _, name := range found.Paths {
		fields.Line("path", name, 1, len(name))
		if reason, invalid := fields["path"]; invalid {
			return api.ArtifactInvalid.New("The file is not a skill: the path " + api.Plain(strconv.Quote(name)) + " " + reason + ".")
		}
	}
	return do(found, zip)
}

// UpdateSkill changes the texts and the type of a skill. It fails with api.NotFound and
// api.PreconditionFailed.
func (s *Service) UpdateSkill(ctx context.Context, caller api.Caller, name string, expected *int64, in SkillInput) (Skill, error) {
	if _, err := in.apply(Skill{}); err != nil {
		return Skill{}, err
	}
	return s.changeSkill(ctx, caller, name, expected, func(before Skill) (Skill, auditlog.Record, error) {
		v, err := in.apply(before)
		return v, actionUpdateSkill.Record(v.event(caller), skillUpdateDetail{
			auditlog.Diff(before.Type, v.Type), auditlog.Diff(before.Title, v.Title), auditlog.Diff(before.Description, v.Description),
			auditlog.Diff(before.DescriptionEN, v.DescriptionEN),
		}), err
	})
}

// ReplaceSkillFile replaces the archive of a skill. The name in the new one must be that of the
// skill, or it fails with api.ArtifactInvalid. The type and the description are those of the input,
// otherwise those of the front matter if it has them.
func (s *Service) ReplaceSkillFile(ctx context.Context, caller api.Caller, name string, expected *int64, in SkillInput, file File) (v Skill, err error) {
	if _, err := s.Skill(ctx, caller, name); err != nil {
		return Skill{}, err
	}
	err = s.withArchive(ctx, caller, file, func(found archive.Skill, zip *artifact.Upload) error {
		if found.Name != name {
			return api.ArtifactInvalid.New("The name of the uploaded skill is " + found.Name + " and not " + name + ": create another skill.")
		}
		return s.stored(ctx, zip, artifact.Skills, name+".zip", func(ref artifact.Ref) (err error) {
			v, err = s.changeSkill(ctx, caller, name, expected, func(before Skill) (Skill, auditlog.Record, error) {
				v := before
				if isSkillType(found.Type) {
					v.Type = found.Type
				}
				if found.Description != "" {
					v.Description = found.Description
				}
				v, err := in.apply(v)
				v.setFile(ref)
				return v, actionReplaceSkill.Record(v.event(caller), skillReplaceDetail{
					auditlog.Diff(before.Type, v.Type), auditlog.Diff(before.Title, v.Title), auditlog.Diff(before.Description, v.Description),
					auditlog.Diff(before.DescriptionEN, v.DescriptionEN), auditlog.Diff(before.Hash, v.Hash), auditlog.Diff(before.Size, v.Size),
				}), err
			})
			return err
		})
	})
	return v, err
}

// changeSkill runs an update of a skill. Without a difference, the version stays.
func (s *Service) changeSkill(ctx context.Context, caller api.Caller, name string, expected *int64,
	update func(Skill) (Skill, auditlog.Record, error)) (v Skill, err error) {
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := skillByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}
		var entry auditlog.Record
		if v, entry, err = update(before); err != nil {
			return err
		}
		if v == before {
			return store.ErrUnchanged
		}
		v.Version, v.UpdatedAt = v.Version+1, api.Time(tx.Now)
		if err := updateSkill(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(entry)
		return nil
	})
	if err != nil {
		return Skill{}, err
	}
	one := []Skill{v}
	err = s.setSkillStates(ctx, one)
	return one[0], err
}

// DeleteSkill deletes a skill. It fails with api.InUse if agents use it. Its archive remains until
// no row names it.
func (s *Service) DeleteSkill(ctx context.Context, caller api.Caller, name string) error {
	return s.change(ctx, caller, func(tx *store.Tx) error {
		v, err := skillByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		agents, err := agentsBound(ctx, tx, caller.TenantID, kindSkill, name)
		if err != nil {
			return err
		}
		if err := inUse(api.InUse, agents); err != nil {
			return err
		}
		if err := deleteSkill(ctx, tx, caller.TenantID, v.ID); err != nil {
			return err
		}
		tx.Record(actionDeleteSkill.Record(v.event(caller), v.detail()))
		return nil
	})
}

func (v Skill) event(caller api.Caller) auditlog.Event {
	return target(caller.Event(), targetSkill, v.ID, v.Name)
}

func (v Skill) detail() skillDetail { return skillDetail{v.Type, v.Hash, v.Size} }
