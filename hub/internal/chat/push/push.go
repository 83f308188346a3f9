// Package push stores the chats that other programs upload, by a user for itself or with a key for
// any user of an organization.
//
//	service, err := push.New(push.Config{Chats: chats, Catalog: catalog, Key: key})
//	if err != nil { ... }
//	handler, err := api.New(config, service.Routes()...)
//
// A push is not trusted: each of its sessions is checked, and an invalid one does not prevent the
// others.
package push

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Config configures [New].
type Config struct {
	// Chats stores the sessions. Required.
	Chats *chat.Service

	// Catalog has the agents. Required.
	Catalog chat.Catalog

	// Key is the key with which programs push chats of any user. Defaults to none.
	Key string

	// ResolveOrg returns the tenant of a push with the key for the organization that the request
	// names, which may be "". Defaults to the tenant "default" for every organization.
	ResolveOrg func(ctx context.Context, org string) (tenantID string, err error)

	// MeterProvider receives the metrics of pushes. Defaults to none.
	MeterProvider metric.MeterProvider
}

// Service stores pushed chats. It is safe for concurrent use.
type Service struct {
	cfg     Config
	metrics metrics
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Chats == nil || cfg.Catalog == nil {
		return nil, errors.New("create push service: Chats and Catalog are required")
	}

	if cfg.ResolveOrg == nil {
		cfg.ResolveOrg = func(context.Context, string) (string, error) { return "default", nil }
	}

	made, err := newMetrics(cfg.MeterProvider)
	if err != nil {
		return nil, fmt.Errorf("create push service: %w", err)
	}

	return &Service{cfg: cfg, metrics: made}, nil
}

const (
	keyHeader = "X-Chat-Push-Key"
	maxBody   = 10 << 20 // bytes
)

// Routes returns the route of pushes.
func (s *Service) Routes() []api.Route {
	return []api.Route{{
		Method: http.MethodPost, Path: "/api/v1/chat/push", Category: "agent", BodyLimit: maxBody,
		Access: api.SignedIn, KeyHeader: keyHeader, NoChallenge: true, Rated: true, Handle: s.push,
	}}
}

// push checks the key. A request without one has a caller. Programs with the key have a share in
// the memory of bodies for each address.
func (s *Service) push(w http.ResponseWriter, r *http.Request) error {
	caller := api.CallerOf(r)
	store := func(in wire.ChatPushRequest) (wire.ChatPushResult, error) { return s.Push(r.Context(), caller, in) }
	if keys, ok := r.Header[keyHeader]; ok {
		if len(keys) != 1 || !s.validKey(keys[0]) {
			return api.WrongKey("The key in " + keyHeader + " is not valid.")
		}

		store = func(in wire.ChatPushRequest) (wire.ChatPushResult, error) { return s.PushAll(r.Context(), in) }
	}

	if err := api.TakeLarge(r); err != nil {
		return err
	}

	in, err := api.DecodeLists[request](w, r)
	if err != nil {
		return err
	}

	result, err := store(in.plain())
	if err != nil {
		return err
	}

	return api.Encode(w, http.StatusOK, result)
}

// validKey compares in constant time.
func (s *Service) validKey(key string) bool {
	want, got := sha256.Sum256([]byte(s.cfg.Key)), sha256.Sum256([]byte(key))
	return s.cfg.Key != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// Push stores sessions of the caller. A member must not name another user; the name that another
// role gives is only displayed. Org is ignored. All sessions are stored in one transaction.
func (s *Service) Push(ctx context.Context, caller api.Caller, in wire.ChatPushRequest) (wire.ChatPushResult, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return wire.ChatPushResult{}, err
	}

	if err := validate(in, false); err != nil {
		return wire.ChatPushResult{}, err
	}

	member := rbac.AdminWrite.Check(caller) != nil
	for _, session := range in.Sessions {
		if member && session.UserName != "" && session.UserName != caller.UserName {
			return wire.ChatPushResult{}, api.Denied(caller, wire.Forbidden.New("You may push only your own sessions: omit user_name."))
		}
	}

	return s.store(ctx, caller, in.Sessions, func(u *chat.Upload) {
		u.UserID, u.UserName = caller.UserID, cmp.Or(u.UserName, caller.UserName)
	})
}

// PushAll stores sessions of any users of an organization, for a caller with the key. The user name
// of a session is also the id of the user.
func (s *Service) PushAll(ctx context.Context, in wire.ChatPushRequest) (wire.ChatPushResult, error) {
	if err := validate(in, true); err != nil {
		return wire.ChatPushResult{}, err
	}

	tenantID, err := s.cfg.ResolveOrg(ctx, in.Org)
	if err != nil {
		return wire.ChatPushResult{}, err
	}

	return s.store(ctx, api.Caller{TenantID: tenantID}, in.Sessions, func(u *chat.Upload) { u.UserID = u.UserName })
}

// validate checks what all sessions of a push need. With named, they need the name of their user.
func validate(in wire.ChatPushRequest, named bool) error {
	fields := api.Fields{}
	switch {
	case in.Sessions == nil:
		fields.Add("sessions", "must be an array")
	case len(in.Sessions) > maxSessions:
		fields.Add("sessions", fmt.Sprintf("must have at most %d sessions", maxSessions))
	}

	for i, session := range in.Sessions {
		if named && session.UserName == "" {
			fields.Add(fmt.Sprintf("sessions[%d].user_name", i), "must not be empty")
		}
	}

	return fields.Err()
}

// store stores the valid sessions, whose agents exist for the caller. own sets their user.
func (s *Service) store(ctx context.Context, caller api.Caller, in []wire.PushedSession, own func(*chat.Upload)) (wire.ChatPushResult, error) {
	result := wire.ChatPushResult{Results: make([]wire.SessionResult, len(in))}
	known := map[string]bool{} // agents
	var valid []chat.Upload
	var places []int // of the valid sessions in the request
	for i := range in {
		result.Results[i].ID = relay.Clean(in[i].ID)
		u, reason := checkSession(in[i])
		in[i].Messages = nil // they are in u
		if reason == nil {
			if _, ok := known[in[i].AgentName]; !ok {
				_, err := s.cfg.Catalog.AgentEnabled(ctx, caller, in[i].AgentName)
				if err != nil && !errors.Is(err, wire.NotFound) {
					return wire.ChatPushResult{}, err
				}

				known[in[i].AgentName] = err == nil
			}

			if !known[in[i].AgentName] {
				reason = errors.New("there is no agent with this agent_name")
			}
		}

		if reason != nil {
			result.Results[i].Status, result.Results[i].Error = chat.UploadInvalid, reason.Error()
			continue
		}

		u.TenantID = caller.TenantID
		own(&u)
		valid, places = append(valid, u), append(places, i)
	}

	if len(valid) > 0 {
		stored, err := s.cfg.Chats.Upload(ctx, valid)
		if err != nil {
			return wire.ChatPushResult{}, err
		}

		for i, one := range stored {
			r := &result.Results[places[i]]
			r.Status, r.Error, r.ServerUpdatedAt = one.Status, one.Reason, wire.Time{Time: one.UpdatedAt}
		}
	}

	for i, one := range result.Results {
		agentName := in[i].AgentName
		if !known[agentName] {
			agentName = ""
		}

		s.metrics.count(ctx, caller.TenantID, agentName, one.Status)
		switch one.Status {
		case chat.UploadCreated:
			result.Accepted++
		case chat.UploadUpdated:
			result.Updated++
		case chat.UploadUnchanged, chat.UploadStale:
			result.Skipped++
		default:
			result.Failed++
		}
	}

	return result, nil
}
