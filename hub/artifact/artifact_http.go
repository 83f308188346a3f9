package artifact

import (
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/hub/api"
)

// routePrefix is where the hub serves files.
const routePrefix = "/artifacts"

// Routes returns the routes that serve files.
func (s *Store) Routes() []api.Route {
	return []api.Route{
		{Method: http.MethodGet, Path: routePrefix + "/tools/:hash/:name", Access: api.Open, Handle: s.serveTool},
		{Method: http.MethodGet, Path: routePrefix + "/skills/:hash/:name", Access: api.Open, Handle: s.serveSkill},
	}
}

var (
	errNoFile = api.NotFound.New("The file does not exist.")
	errLink   = api.Forbidden.New("The link is not valid or has expired: request a new one.")
)

// serveTool serves to everyone: the content of an address never changes.
func (s *Store) serveTool(w http.ResponseWriter, r *http.Request) error {
	// Pages of other origins may load it, as from a CDN.
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	return s.serve(w, r, requested(r, Tools), "public, max-age=31536000, immutable")
}

// serveSkill serves to clients with a signed link.
func (s *Store) serveSkill(w http.ResponseWriter, r *http.Request) error {
	ref := requested(r, Skills)
	if !s.verify(ref, r.URL.Query()) {
		return errLink
	}
	return s.serve(w, r, ref, "private, no-store")
}

func requested(r *http.Request, kind Kind) Ref {
	return Ref{Kind: kind, Hash: r.PathValue("hash"), Name: r.PathValue("name")}
}

func (s *Store) serve(w http.ResponseWriter, r *http.Request, ref Ref, cacheControl string) error {
	b, err := s.Open(r.Context(), ref)
	if errors.Is(err, ErrNotExist) {
		return errNoFile
	}
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // it was only read
	status, err := filesafe.Serve(w, r, filesafe.Content{
		Body: b.Content, Name: ref.Name, Type: "application/octet-stream", Size: b.Size, Modified: b.Modified, ETag: `"` + ref.Hash + `"`, CacheControl: cacheControl,
	})
	switch {
	case err != nil:
		return s.failed("read artifact", err)
	case status == http.StatusPreconditionFailed:
		return api.PreconditionFailed.New("The file has another hash than If-Match names.")
	case status == http.StatusRequestedRangeNotSatisfiable:
		return &api.Error{Code: api.InvalidRequest, Status: status, Message: "The range is beyond the end of the file."}
	}
	return nil
}
