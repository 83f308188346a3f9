package external

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) loginRoutes() []api.Route {
	open := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: path, Access: api.Open, Handle: handle}
	}
	return []api.Route{
		open(http.MethodGet, "/auth/mode", s.mode),
		open(http.MethodGet, "/auth/login", s.login),
		open(http.MethodGet, "/auth/org-check", s.orgCheck),
		open(http.MethodGet, globalCallback, s.callback),
		open(http.MethodGet, globalCallback+"/:org", s.callback),
		open(http.MethodPost, "/auth/exchange", s.exchangeCode),
	}
}

type modeBody struct {
	Mode          string `json:"mode"`
	SetupRequired bool   `json:"setup_required"`
	DefaultOrg    string `json:"default_org,omitempty"`
}

func (s *Service) mode(w http.ResponseWriter, r *http.Request) error {
	org, err := s.CheckOrg(r.Context(), "")
	if err != nil && !errors.Is(err, api.NotFound) {
		return err
	}
	return api.Encode(w, http.StatusOK, modeBody{Mode: "external", DefaultOrg: org})
}

type orgBody struct {
	Org        string `json:"org"`
	Registered bool   `json:"registered"`
}

func (s *Service) orgCheck(w http.ResponseWriter, r *http.Request) error {
	query, err := one(r, "org")
	if err != nil {
		return err
	}
	org, err := s.CheckOrg(r.Context(), query.Get("org"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, orgBody{org, true})
}

// one returns the query if it has none of the parameters twice: the two could be read differently.
func one(r *http.Request, names ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, api.InvalidRequest.New("The query cannot be parsed.")
	}
	for _, name := range names {
		if len(query[name]) > 1 {
			return nil, api.InvalidRequest.New("The query parameter " + name + " is repeated.")
		}
	}
	return query, nil
}

func (s *Service) login(w http.ResponseWriter, r *http.Request) error {
	query, err := one(r, "org", "return_to", "confirm")
	if err != nil {
		return err
	}
	in := LoginInput{query.Get("org"), query.Get("return_to"), s.browser(r)}
	if s.startedElsewhere(r) && !confirmed(query.Get("confirm"), in) {
		return s.askToConfirm(w, r, in)
	}
	location, browser, err := s.StartLogin(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(browser))
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusFound)
	return nil
}

func (s *Service) callback(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet { // HEAD must not complete the login
		return api.MethodNotAllowed
	}
	query, err := one(r, "state", "code", "iss", "error")
	if err != nil {
		return err
	}
	result, err := s.Callback(r.Context(), api.CallerOf(r), CallbackInput{
		Org: r.PathValue("org"), State: query.Get("state"), Code: query.Get("code"), Issuer: query.Get("iss"), Error: query.Get("error"), Browser: s.browser(r),
	})
	if err != nil {
		return err
	}
	if result.Location != "" {
		w.Header().Set("Location", result.Location)
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	return api.Encode(w, http.StatusOK, result.SignIn)
}

type exchangeInput struct {
	Code string `json:"code"`
}

func (s *Service) exchangeCode(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[exchangeInput](w, r)
	if err != nil {
		return err
	}
	if in.Code == "" {
		return api.Fields{"code": "must not be empty"}
	}
	signIn, err := s.Exchange(r.Context(), api.CallerOf(r), in.Code, s.browser(r))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, signIn)
}

// secure reports whether browsers reach the hub by https.
func (s *Service) secure() bool { return strings.HasPrefix(s.cfg.PublicURL, "https:") }

// cookieName has the prefix with which only this host can set the cookie, and only by https
// (RFC 6265bis, section 4.1.3).
func (s *Service) cookieName() string {
	if s.secure() {
		return "__Host-hub_login"
	}
	return "hub_login"
}

// cookie identifies the browser until its login ends. Logins in several tabs share it. Lax cookies
// are sent when the identity provider redirects to the callback.
func (s *Service) cookie(browser string) *http.Cookie {
	return &http.Cookie{ // not Secure only if the public URL is http
		Name: s.cookieName(), Value: browser, Path: "/", MaxAge: int((flowLife + codeLife).Seconds()),
		HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode,
	}
}

// browser returns the cookie, or "" if there is not exactly one.
func (s *Service) browser(r *http.Request) string {
	cookies := r.CookiesNamed(s.cookieName())
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}
