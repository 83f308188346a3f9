package catalog

import (
	"fmt"
	"net/http"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) toolRoutes() []api.Route {
	route := func(method, path string, limit int64, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		r := adminRoute(method, "/api/v1/admin/tools"+path, handle)
		r.BodyLimit = limit
		return r
	}
	return []api.Route{
		route(http.MethodGet, "", 0, s.listTools),
		route(http.MethodPost, "", MaxToolFile+formOverhead, s.createTool),
		route(http.MethodGet, "/:name", 0, s.getTool),
		route(http.MethodPut, "/:name", 0, s.updateTool),
		route(http.MethodDelete, "/:name", 0, s.deleteTool),
		route(http.MethodGet, "/:name/download", 0, s.downloadTool),
		route(http.MethodPut, "/:name/file", MaxToolFile+formOverhead, s.replaceToolFile),
	}
}

func (s *Service) listTools(w http.ResponseWriter, r *http.Request) error { return list(w, r, s.Tools) }

func (s *Service) getTool(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Tool(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeTool(w, http.StatusOK, v, err)
}

// writeTool responds with a tool. Built-in ones have no version.
func writeTool(w http.ResponseWriter, status int, v Tool, err error) error {
	if err == nil && v.Source == sourceBuiltin {
		return api.Encode(w, status, v)
	}
	return writeVersion(w, status, v, v.Version, err)
}

func (s *Service) createTool(w http.ResponseWriter, r *http.Request) error {
	return s.withForm(r, MaxToolFile, func(file File, fields map[string]string) error {
		in := ToolInput{field(fields, "title"), field(fields, "description"), field(fields, "descriptionEn")}
		v, err := s.CreateTool(r.Context(), api.CallerOf(r), in, file)
		return writeTool(w, http.StatusCreated, v, err)
	})
}

func (s *Service) updateTool(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[ToolInput](w, r)
	if err != nil {
		return err
	}
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	v, err := s.UpdateTool(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, in)
	return writeTool(w, http.StatusOK, v, err)
}

func (s *Service) replaceToolFile(w http.ResponseWriter, r *http.Request) error {
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	if _, err := s.customTool(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err // before the file is read
	}
	return s.withForm(r, MaxToolFile, func(file File, _ map[string]string) error {
		v, err := s.ReplaceToolFile(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, file)
		return writeTool(w, http.StatusOK, v, err)
	})
}

func (s *Service) deleteTool(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteTool(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) downloadTool(w http.ResponseWriter, r *http.Request) error {
	v, blob, err := s.OpenTool(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // it was opened for reading
	status, err := filesafe.Serve(w, r, filesafe.Content{
		Body: blob.Content, Name: v.FileName, Type: "application/octet-stream", Size: blob.Size, Modified: blob.Modified,
		ETag: `"` + v.Hash + `"`, CacheControl: "no-store",
	})
	switch {
	case err != nil:
		return fmt.Errorf("read tool: %w", err)
	case status == http.StatusPreconditionFailed:
		return api.PreconditionFailed
	case status == http.StatusRequestedRangeNotSatisfiable:
		return &api.Error{Code: api.InvalidRequest, Status: status, Message: "The range is beyond the end of the file."}
	}
	return nil
}
