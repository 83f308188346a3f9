package console

import (
	"net/http"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/wire"
)

// ofPages rejects requests that no page of the hub has sent. Browsers send Sec-Fetch-Site to https
// and loopback addresses, and Origin with each of these methods.
func (s *Service) ofPages(handle api.Handler) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		site := r.Header.Get("Sec-Fetch-Site")
		if site != "same-origin" && (site != "" || r.Header.Get("Origin") != s.public.Scheme+"://"+s.public.Host) {
			return wire.Forbidden.New("Only pages of this hub may send this request.")
		}

		return handle(w, r)
	}
}

// signInInput is a login with a password, the refresh token of a new account or, in external mode,
// the code of a login.
type signInInput struct {
	bodies.LoginRequest
	RefreshToken string `json:"refresh_token"`
	Code         string `json:"code"`
	Replace      bool   `json:"replace"` // the session of another user in this browser
}

// checkReplaced fails with wire.Conflict if the browser has a session of another user, whom the
// user of the page did not agree to sign out. A link of another site or in an answer can lead to a
// login, but not to this agreement.
func (s *Service) checkReplaced(r *http.Request, in signInInput) error {
	if in.Replace {
		return nil
	}

	refresh, err := s.refreshToken(r)
	if err != nil {
		return nil //nolint:nilerr // the browser has no session
	}

	login := session.Name{Name: wire.Name{Username: in.Username, OrgID: api.DefaultTenant}}
	switch {
	case s.cfg.ExternalMode:
		login, err = s.cfg.External.CodeUser(r.Context(), in.Code, s.cfg.External.Browser(r))
	case in.RefreshToken != "":
		login, err = s.cfg.Sessions.UserOf(r.Context(), in.RefreshToken)
	}

	if err != nil || login.OrgID == "" { // the refresh token is invalid
		return err
	}

	current, err := s.cfg.Sessions.UserOf(r.Context(), refresh)
	if err != nil || current.OrgID == "" || current.Is(login) {
		return err
	}

	return &wire.Error{
		Code: wire.Conflict, Message: "This browser is signed in as another user: ask before you send the login with replace.",
		Data: wire.ErrorData{Session: &current.Name, Login: &login.Name},
	}
}

func (s *Service) signIn(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[signInInput](w, r)
	if err != nil {
		return err
	}

	if err := s.checkReplaced(r, in); err != nil {
		return err
	}

	var signIn session.SignIn
	switch {
	case s.cfg.ExternalMode:
		signIn, err = s.cfg.External.Exchange(r.Context(), api.CallerOf(r), in.Code, s.cfg.External.Browser(r))
	case in.RefreshToken != "":
		signIn, err = s.cfg.Sessions.Refresh(r.Context(), api.CallerOf(r), bodies.RefreshRequest{RefreshToken: in.RefreshToken})
	default:
		in.DeviceToken = s.cfg.Sessions.Devices(r)
		signIn, err = s.cfg.Sessions.Login(r.Context(), api.CallerOf(r), in.LoginRequest)
	}

	if err != nil {
		return err
	}

	return s.respond(w, r, signIn)
}

func (s *Service) refresh(w http.ResponseWriter, r *http.Request) error {
	refresh, err := s.refreshToken(r)
	if err != nil {
		return err
	}

	signIn, err := s.cfg.Sessions.RefreshPage(r.Context(), api.CallerOf(r), refresh)
	if err != nil { // the cookie stays: another tab may have replaced it at the same time
		return err
	}

	return s.respond(w, r, signIn)
}

func (s *Service) signOut(w http.ResponseWriter, r *http.Request) error {
	refresh, err := s.refreshToken(r)
	if err != nil {
		return err
	}

	if err := s.cfg.Sessions.Logout(r.Context(), api.CallerOf(r), "", refresh); err != nil {
		return err
	}

	http.SetCookie(w, s.cookie("", -1))
	return api.NoContent(w)
}

func (s *Service) respond(w http.ResponseWriter, r *http.Request, in session.SignIn) error {
	if in.RefreshToken != "" {
		http.SetCookie(w, s.cookie(in.RefreshToken, int(in.RefreshExpiresIn)))
		s.cfg.Sessions.SetDevice(w, r, in)
	}

	return api.Encode(w, http.StatusOK, in.Access) // the refresh token is in the cookie
}

// refreshToken returns the refresh token of the cookie.
func (s *Service) refreshToken(r *http.Request) (string, error) {
	cookie, err := r.Cookie(s.cookieName())
	if err != nil || cookie.Value == "" {
		return "", wire.Unauthenticated.New("This browser has no session: sign in.")
	}

	return cookie.Value, nil
}

// cookieName has the prefix with which only this host can set the cookie, and only by https
// (RFC 6265bis, section 4.1.3). Browsers send the cookies of a host to all of its ports. Without
// https, the port in the name separates the hubs of a loopback address.
func (s *Service) cookieName() string {
	if s.public.Scheme == "https" {
		return "__Host-hub-session"
	}

	return "hub-session" + s.public.Port()
}

// cookie returns the cookie with a refresh token. Without https, its path keeps it from the other
// programs of the host, such as one that signs in with a browser.
func (s *Service) cookie(value string, maxAge int) *http.Cookie {
	c := &http.Cookie{Name: s.cookieName(), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode}
	if s.public.Scheme != "https" {
		c.Secure = false
		c.Path = strings.TrimRight(s.public.Path, "/") + sessionPath
	}

	return c
}
