package catalog

import (
	"context"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/skillzip"
)

func (s *Service) skillRoutes() []api.Route {
	route := func(method, path string, limit int64, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		r := adminRoute(method, "/api/v1/admin/skills"+path, handle)
		r.BodyLimit = limit
		return r
	}
	public := func(path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: http.MethodGet, Path: "/api/v1/skills" + path, Access: api.SignedIn, Category: category, Large: true, Handle: handle}
	}
	return []api.Route{
		public("", s.listSkills),
		public("/:name", s.getSkill),
		public("/:name/download", s.linkSkill),
		route(http.MethodGet, "", 0, s.listSkills),
		route(http.MethodPost, "", skillzip.MaxPacked+formOverhead, s.createSkill),
		route(http.MethodGet, "/:name", 0, s.getSkill),
		route(http.MethodPut, "/:name", 0, s.updateSkill),
		route(http.MethodDelete, "/:name", 0, s.deleteSkill),
		route(http.MethodPut, "/:name/file", skillzip.MaxPacked+formOverhead, s.replaceSkillFile),
	}
}

func (s *Service) listSkills(w http.ResponseWriter, r *http.Request) error {
	kind := r.URL.Query().Get("type")
	return list(w, r, func(ctx context.Context, caller api.Caller, page api.Page) (api.List[Skill], error) {
		return s.Skills(ctx, caller, kind, page)
	})
}

func (s *Service) getSkill(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Skill(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) linkSkill(w http.ResponseWriter, r *http.Request) error {
	link, err := s.LinkSkill(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, link)
}

func skillInput(fields map[string]string) SkillInput {
	return SkillInput{field(fields, "type"), field(fields, "title"), field(fields, "description"), field(fields, "descriptionEn")}
}

func (s *Service) createSkill(w http.ResponseWriter, r *http.Request) error {
	return s.withForm(r, skillzip.MaxPacked, func(file File, fields map[string]string) error {
		v, err := s.CreateSkill(r.Context(), api.CallerOf(r), skillInput(fields), file)
		return writeVersion(w, http.StatusCreated, v, v.Version, err)
	})
}

func (s *Service) updateSkill(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[SkillInput](w, r)
	if err != nil {
		return err
	}
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	v, err := s.UpdateSkill(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, in)
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) replaceSkillFile(w http.ResponseWriter, r *http.Request) error {
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	return s.withForm(r, skillzip.MaxPacked, func(file File, fields map[string]string) error {
		v, err := s.ReplaceSkillFile(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, skillInput(fields), file)
		return writeVersion(w, http.StatusOK, v, v.Version, err)
	})
}

func (s *Service) deleteSkill(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteSkill(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}
	return api.NoContent(w)
}
