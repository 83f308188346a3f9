package aigc

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

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
	object, err := api.Decode[rawObject](w, r)
	if err != nil {
		return err
	}
	l, err := label.Parse(object.text)
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

// rawObject is a JSON object as it was sent: a decoder would keep one of several equal members.
type rawObject struct{ text []byte }

// UnmarshalJSON implements json.Unmarshaler.
func (o *rawObject) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return &json.UnmarshalTypeError{Value: "another value", Type: reflect.TypeFor[rawObject]()}
	}
	o.text = bytes.Clone(data)
	return nil
}
