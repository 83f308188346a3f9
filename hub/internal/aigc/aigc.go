// Package aigc labels generated content as GB 45438-2025 requires: the configuration of each
// tenant, the keys that sign its labels, and the labels of messages.
//
//	marker, err := service.Label(ctx, tenantID) // one for each answer; nil if labels are disabled
//	if marker != nil {
//		data, err := json.Marshal(marker.Label) // the implicit label, for the metadata
//		... marker.Mode, marker.Text            // the explicit label, for the reader
//	}
//
// The form of a label and of its signature is that of package hub/internal/aigc/label. The keys are
// sealed in the database and never returned. A key that was replaced, or whose configuration was
// deleted, still verifies the labels that it signed.
package aigc

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/aigc/label"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that a Service requires.
var Migrations = db.Embedded("aigc", files)

// Service is the part of the hub that labels content. It is safe for concurrent use.
type Service struct{ store *store.Store }

// New returns a Service on a database with Migrations applied.
func New(s *store.Store) *Service { return &Service{s} }

// The audit actions of this package.
var (
	actionUpdateConfig = auditlog.Define[updateDetail]("aigc.update_config")
	actionDeleteConfig = auditlog.Define[deleteDetail]("aigc.delete_config")
	actionRotateKey    = auditlog.Define[rotateDetail]("aigc.rotate_key")
)

// event returns the event of a change of the tenant's configuration.
func event(caller api.Caller, companyName string) auditlog.Event {
	return caller.Event().WithTarget("aigc_config", caller.TenantID, companyName)
}

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	route := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/aigc" + path, Group: rbac.AdminWrite, Category: "aigc", Handle: handle}
	}
	return []api.Route{
		route(http.MethodGet, "/config", api.Result(http.StatusOK, func(r *http.Request) (any, error) {
			settings, found, err := s.Settings(r.Context(), api.CallerOf(r))
			if err != nil || found {
				return settings, err
			}

			return unconfigured{}, nil
		})),
		route(http.MethodPut, "/config", api.Call(http.StatusOK, s.SetSettings)),
		route(http.MethodDelete, "/config", api.Done(func(r *http.Request) error { return s.DeleteSettings(r.Context(), api.CallerOf(r)) })),
		route(http.MethodPost, "/config/rotate-key", api.Result(http.StatusOK, func(r *http.Request) (wire.AIGCRotation, error) {
			return s.RotateKey(r.Context(), api.CallerOf(r))
		})),
		route(http.MethodPost, "/verify", api.ResultOf(http.StatusOK, func(r *http.Request, in rawObject) (wire.AIGCVerification, error) {
			l, err := label.Parse(in.text)
			if errors.Is(err, label.ErrForm) {
				return wire.AIGCVerification{Reason: ReasonMalformed}, nil
			}

			if err != nil {
				return wire.AIGCVerification{}, api.Fields{"Label": `must be present: the body must be a label, or {"aigc": label}`}
			}

			return s.Verify(r.Context(), api.CallerOf(r), l)
		})),
	}
}

// unconfigured is the response without a configuration.
type unconfigured struct {
	Enabled bool `json:"enabled"`
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
