package aigc

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/hub/aigc/label"
	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) keyRoutes() []api.Route {
	return []api.Route{
		route(http.MethodPost, "/config/rotate-key", s.rotateKey),
		route(http.MethodPost, "/verify", s.verify),
	}
}

func (s *Service) rotateKey(w http.ResponseWriter, r *http.Request) error {
	rotation, err := s.RotateKey(r.Context(), api.CallerOf(r))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, rotation)
}

func (s *Service) verify(w http.ResponseWriter, r *http.Request) error {
	data, err := api.Decode[json.RawMessage](w, r)
	if err != nil {
		return err
	}
	l, err := label.Parse(data)
	if errors.Is(err, label.ErrForm) {
		return api.Encode(w, http.StatusOK, Verification{Reason: ReasonMalformed})
	}
	if err != nil {
		return api.Fields{"Label": `must be present: the body must be a label, or {"aigc": label}`}
	}
	verification, err := s.Verify(r.Context(), api.CallerOf(r), l)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, verification)
}
