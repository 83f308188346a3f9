package chat

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

const (
	pushKeyHeader = "X-Chat-Push-Key"
	maxPushBody   = 10 << 20 // bytes
)

func (s *Service) pushRoutes() []api.Route {
	return []api.Route{{
		Method: http.MethodPost, Path: "/api/v1/chat/push", Category: "agent", BodyLimit: maxPushBody,
		Access: api.SignedIn, KeyHeader: pushKeyHeader, NoChallenge: true, Handle: s.pushSessions,
	}}
}

func (s *Service) pushSessions(w http.ResponseWriter, r *http.Request) error {
	push, err := s.pusher(r)
	if err != nil {
		return err
	}
	if err := api.TakeShare(r, push.owner); err != nil { // for the memory of its body
		return err
	}
	in, err := api.Decode[PushInput](w, r)
	if err != nil {
		return err
	}
	result, err := push.store(in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, result)
}

// pusher stores the sessions of an authenticated caller.
type pusher struct {
	owner string // of the share in large bodies
	store func(PushInput) (PushResult, error)
}

// pusher checks the key. A request without one has a caller. Programs with the key have a share for
// each address.
func (s *Service) pusher(r *http.Request) (pusher, error) {
	caller := api.CallerOf(r)
	keys, ok := r.Header[pushKeyHeader]
	switch {
	case !ok:
		return pusher{api.ShareOwner(caller), func(in PushInput) (PushResult, error) { return s.Push(r.Context(), caller, in) }}, nil
	case len(keys) != 1 || !s.validPushKey(keys[0]):
		return pusher{}, api.WrongKey("The key in " + pushKeyHeader + " is not valid.")
	}
	return pusher{"push " + caller.RemoteIP, func(in PushInput) (PushResult, error) { return s.PushAll(r.Context(), in) }}, nil
}
