package identity

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) authRoutes() []api.Route {
	const auth = "auth"
	return []api.Route{
		{Method: http.MethodGet, Path: "/.well-known/jwks.json", Access: api.Open, Handle: s.jwks},
		{Method: http.MethodPost, Path: "/auth/refresh", Access: api.Open, Category: auth, Handle: s.refresh},
		{Method: http.MethodPost, Path: "/auth/logout", Access: api.Open, Category: auth, Handle: s.logout},
		{Method: http.MethodGet, Path: "/auth/userinfo", Access: api.SignedIn, Category: auth, BeforePasswordChange: true, Handle: s.userinfo},
		{Method: http.MethodGet, Path: "/auth/sessions", Access: api.SignedIn, Category: auth, Handle: s.listSessions},
		{Method: http.MethodDelete, Path: "/auth/sessions/:id", Access: api.SignedIn, Category: auth, Handle: s.revokeSession},
	}
}

// passwordRoutes are the routes of built-in mode only.
func (s *Service) passwordRoutes() []api.Route {
	const auth = "auth"
	return []api.Route{
		{Method: http.MethodGet, Path: "/auth/mode", Access: api.Open, Handle: s.mode},
		{Method: http.MethodPost, Path: "/auth/setup", Access: api.Open, Category: auth, Handle: s.setUp},
		{Method: http.MethodGet, Path: "/auth/login", Access: api.Open, Hidden: true, Handle: notFound},
		{Method: http.MethodPost, Path: "/auth/login", Access: api.Open, Category: auth, Handle: s.login},
		{Method: http.MethodPost, Path: "/auth/change-password", Access: api.SignedIn, Category: auth, BeforePasswordChange: true, Handle: s.changePassword},
		{Method: http.MethodGet, Path: "/auth/invite/:token", Access: api.Open, Secret: true, Handle: s.checkInvite},
		{Method: http.MethodPost, Path: "/auth/register", Access: api.Open, Handle: s.register},
	}
}

// externalRoutes are the routes of external mode only. The others are in package external.
func externalRoutes() []api.Route {
	return []api.Route{{Method: http.MethodPost, Path: "/auth/login", Access: api.Open, Hidden: true, Handle: notFound}}
}

// notFound is the handler of a method that /auth/login has only in the other mode: 404, not 405.
func notFound(http.ResponseWriter, *http.Request) error { return api.NotFound }

func (s *Service) mode(w http.ResponseWriter, r *http.Request) error {
	mode, err := s.Mode(r.Context())
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, mode)
}

func (s *Service) setUp(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[SetupInput](w, r)
	if err != nil {
		return err
	}
	signIn, err := s.Setup(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, signIn)
}

func (s *Service) login(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[LoginInput](w, r)
	if err != nil {
		return err
	}
	signIn, err := s.Login(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, signIn)
}

func (s *Service) refresh(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[RefreshInput](w, r)
	if err != nil {
		return err
	}
	signIn, err := s.Refresh(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, signIn)
}

func (s *Service) logout(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[RefreshInput](w, r)
	if err != nil {
		return err
	}
	if err := s.Logout(r.Context(), api.CallerOf(r), api.Bearer(r), in); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) changePassword(w http.ResponseWriter, r *http.Request) error {
	caller := api.CallerOf(r)
	if err := checkSession(caller); err != nil { // before the body
		return err
	}
	in, err := api.Decode[ChangePasswordInput](w, r)
	if err != nil {
		return err
	}
	if err := s.ChangePassword(r.Context(), caller, in); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) userinfo(w http.ResponseWriter, r *http.Request) error {
	return api.Encode(w, http.StatusOK, s.userinfoOf(api.CallerOf(r)))
}

func (s *Service) listSessions(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Sessions(r.Context(), api.CallerOf(r), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) revokeSession(w http.ResponseWriter, r *http.Request) error {
	if err := s.RevokeSession(r.Context(), api.CallerOf(r), r.PathValue("id")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) jwks(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.PublicKeys(r.Context())
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, keys)
}
