package chat

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/rbac"
)

// Routes returns the routes of sessions and messages.
func (s *Service) Routes() []api.Route {
	own := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{
			Method: method, Path: "/api/v1/agents/:name/chat/sessions" + path, Access: api.SignedIn, Category: "agent",
			Large: method == http.MethodGet, Handle: handle,
		}
	}
	admin := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		// A member may delete its own sessions: the service checks the owner.
		return api.Route{
			Method: method, Path: "/api/v1/admin/chat/sessions" + path, Group: rbac.AdminRead, Category: "agent",
			Large: method == http.MethodGet, Handle: handle,
		}
	}
	return slices.Concat(s.runRoutes(), s.approvalRoutes(), []api.Route{
		own(http.MethodGet, "", api.ListBy("name", s.Sessions)),
		own(http.MethodPost, "", s.createSession),
		own(http.MethodDelete, "/:id", api.Done(func(r *http.Request) error {
			return s.DeleteSession(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"))
		})),
		own(http.MethodPost, "/:id/cancel", api.Result(http.StatusAccepted, func(r *http.Request) (bodies.Cancelling, error) {
			return s.Cancel(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"))
		})),
		own(http.MethodGet, "/:id/messages", api.Result(http.StatusOK, s.listMessages)),
		bodied(rated(own(http.MethodPost, "/:id/messages", s.sendMessage)), maxMessage),
		own(http.MethodGet, "/:id/uploads/:upload", s.ofOwner(s.serveFile)),
		{
			Method: http.MethodPost, Path: "/api/v1/agents/:name/chat/uploads", Access: api.SignedIn, Category: "agent",
			BodyLimit: runvalue.MaxFileBytes, Rated: true, Handle: s.upload,
		},
		streamed(own(http.MethodGet, "/:id/messages/:message/events", s.ofOwner(s.sendEvents))),
		own(http.MethodPost, "/:id/messages/:message/cancel", api.Result(http.StatusAccepted, func(r *http.Request) (bodies.Cancelling, error) {
			return s.CancelAnswer(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"), r.PathValue("message"))
		})),
		own(http.MethodGet, "/:id/transcript", api.Result(http.StatusOK, s.showTranscript)),
		admin(http.MethodGet, "", api.Result(http.StatusOK, s.listAllSessions)),
		admin(http.MethodGet, "/:id", api.Result(http.StatusOK, func(r *http.Request) (wire.ChatSession, error) {
			owner, err := ownerOf(r)
			if err != nil {
				return wire.ChatSession{}, err
			}

			return s.AnySession(r.Context(), api.CallerOf(r), r.PathValue("id"), owner)
		})),
		admin(http.MethodGet, "/:id/messages", api.Result(http.StatusOK, s.listAnyMessages)),
		admin(http.MethodGet, "/:id/uploads/:upload", s.ofAny(s.serveFile)),
		streamed(admin(http.MethodGet, "/:id/messages/:message/events", s.ofAny(s.sendEvents))),
		{
			Method: http.MethodPost, Path: "/api/v1/admin/chat/sessions/:id/messages/:message/cancel", Group: rbac.AdminWrite, Category: "agent",
			Handle: api.Result(http.StatusAccepted, s.cancelAnyAnswer),
		},
		admin(http.MethodGet, "/:id/transcript", api.Result(http.StatusOK, s.showAnyTranscript)),
		admin(http.MethodDelete, "/:id", api.Done(func(r *http.Request) error {
			owner, err := ownerOf(r)
			if err != nil {
				return err
			}

			return s.DeleteAnySession(r.Context(), api.CallerOf(r), r.PathValue("id"), owner)
		})),
	})
}

// ofOwner handles a request for a session of the caller.
func (s *Service) ofOwner(handle func(http.ResponseWriter, *http.Request, reference) error) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ref, err := s.ownedBy(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"))
		if err != nil {
			return err
		}

		return handle(w, r, ref)
	}
}

// ofAny handles a request for a session of any user that the caller may see.
func (s *Service) ofAny(handle func(http.ResponseWriter, *http.Request, reference) error) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		owner, err := ownerOf(r)
		if err != nil {
			return err
		}

		ref, err := anySession(api.CallerOf(r), r.PathValue("id"), owner)
		if err != nil {
			return err
		}

		return handle(w, r, ref)
	}
}

// streamed changes the route of an event stream, which has its own bounds of memory.
func streamed(route api.Route) api.Route {
	route.Large = false
	return route
}

// bodied changes the limit of the bodies of a route.
func bodied(route api.Route, limit int64) api.Route {
	route.BodyLimit = limit
	return route
}

func rated(route api.Route) api.Route {
	route.Rated = true
	return route
}

func (s *Service) createSession(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[bodies.ChatSessionRequest](w, r)
	if err != nil {
		return err
	}

	session, err := s.CreateSession(r.Context(), api.CallerOf(r), r.PathValue("name"), in)
	if err != nil {
		return err
	}

	return api.Encode(w, http.StatusCreated, session)
}

func (s *Service) listMessages(r *http.Request) (MessageList, error) {
	page, err := api.Paging(r)
	if err != nil {
		return MessageList{}, err
	}

	return s.Messages(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"), page)
}

func (s *Service) sendMessage(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeEncoded(w, r, encodedBytes)
	if errors.Is(err, httpapi.ErrTooLarge) {
		return code.PayloadTooLarge.New(fmt.Sprintf("A message may have 1 MiB of text, and %d MiB with its images and files in base64: "+
			"send larger ones to .../chat/uploads, and their ids with the message.", maxMessage>>20))
	}

	if err != nil {
		return err
	}

	caller := api.CallerOf(r)
	answer, before, err := s.send(r.Context(), caller, r.PathValue("name"), r.PathValue("id"), in, Place{})
	api.ReleaseMemory(r) // the bytes of the message are stored, and the answer may take long
	if errors.Is(err, errIncomplete) {
		return api.Encode(w, http.StatusAccepted, wire.ApprovalResult{State: relay.StatusWaiting})
	}

	if err != nil {
		return err
	}

	switch {
	case before != nil:
	case in.Background:
		run := answer.Run()
		return api.Encode(w, http.StatusAccepted, bodies.ChatMessageIDs{UserMessageID: run.UserMessageID, AssistantMessageID: run.MessageID})
	case continues(in):
		return s.follow(r.Context(), w, answer.Run(), answer.Before(), sendEnded)
	default:
		defer answer.Close()
		return answer.Serve(w)
	}

	if err := api.TakeLarge(r); err != nil { // for the memory of the answer
		return err
	}

	sent, err := s.sent(r.Context(), before)
	if err != nil {
		return err
	}

	return api.Encode(w, http.StatusOK, sent)
}

// maxMessage bounds the body of a message, in bytes: it and what it has in base64 are a part of the
// memory of a user.
const maxMessage = 16 << 20

// encodedBytes returns the number of bytes of a message that are base64.
func encodedBytes(in wire.ChatMessageRequest) int64 {
	n := 0
	for _, p := range in.Content {
		n += base64.StdEncoding.EncodedLen(len(p.Data))
	}

	return int64(n)
}

// invalidQuery returns the error of a parameter of the query.
func invalidQuery(name, want string) error {
	return &wire.Error{Code: wire.InvalidRequest, Message: name + " " + want + ".", Data: wire.ErrorData{Fields: map[string]string{name: want}}}
}

func (s *Service) listAllSessions(r *http.Request) (api.List[wire.ChatSession], error) {
	page, err := api.Paging(r)
	if err != nil {
		return api.List[wire.ChatSession]{}, err
	}

	f, err := filterOf(r)
	if err != nil {
		return api.List[wire.ChatSession]{}, err
	}

	return s.AllSessions(r.Context(), api.CallerOf(r), f, page)
}

// filterOf parses agent, user, source, from and to of the query. Empty values count as omitted.
func filterOf(r *http.Request) (Filter, error) {
	query, err := queryOf(r)
	if err != nil {
		return Filter{}, err
	}

	f := Filter{Agent: query.Get("agent"), User: query.Get("user"), Source: query.Get("source")}
	invalid := map[string]string{}
	for name, value := range map[string]string{"agent": f.Agent, "user": f.User} {
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) || utf8.RuneCountInString(value) > 200 {
			invalid[name] = "must be UTF-8 of at most 200 characters"
		}
	}

	if f.Source != "" && f.Source != SourceHub && f.Source != SourcePush && f.Source != SourceAPI {
		invalid["source"] = "must be hub, push or api"
	}

	for name, at := range map[string]*time.Time{"from": &f.From, "to": &f.To} {
		if value := query.Get(name); value != "" {
			if *at, err = time.Parse(time.RFC3339, value); err != nil {
				invalid[name] = "must be a time in the form of RFC 3339, such as 2006-01-02T15:04:05Z"
			}
		}
	}

	if len(invalid) > 0 {
		return f, &wire.Error{Code: wire.InvalidRequest, Message: "Some parameters of the query are invalid: correct them.", Data: wire.ErrorData{Fields: invalid}}
	}

	return f, nil
}

// ownerOf returns the owner of a session that the query names, or "".
func ownerOf(r *http.Request) (string, error) {
	query, err := queryOf(r)
	return query.Get("user"), err
}

func queryOf(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !utf8.ValidString(query.Get("user")) || strings.ContainsRune(query.Get("user"), 0) {
		return nil, wire.InvalidRequest.New("The query string is malformed: escape it as in a URL.")
	}

	return query, nil
}

func (s *Service) listAnyMessages(r *http.Request) (MessageList, error) {
	page, err := api.Paging(r)
	if err != nil {
		return MessageList{}, err
	}

	owner, err := ownerOf(r)
	if err != nil {
		return MessageList{}, err
	}

	return s.AnyMessages(r.Context(), api.CallerOf(r), r.PathValue("id"), owner, page)
}
