package external

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/wire"
)

func (s *Service) loginRoutes() []api.Route {
	open := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: path, Access: api.Open, Handle: handle}
	}
	return []api.Route{
		open(http.MethodGet, "/auth/mode", api.Result(http.StatusOK, s.mode)),
		open(http.MethodGet, "/auth/login", s.login),
		open(http.MethodGet, "/auth/org-check", api.Result(http.StatusOK, s.orgCheck)),
		open(http.MethodGet, globalCallback, s.callback),
		open(http.MethodGet, globalCallback+"/:org", s.callback),
		open(http.MethodPost, "/auth/exchange", api.ResultOf(http.StatusOK, s.exchangeCode)),
		open(http.MethodPost, "/auth/backchannel-logout", s.backchannelLogout),
	}
}

func (s *Service) mode(r *http.Request) (wire.Mode, error) {
	org, _, err := s.CheckOrg(r.Context(), "")
	if errors.Is(err, wire.NotFound) {
		err = nil
	}

	return wire.Mode{Mode: "external", DefaultOrg: org, Program: s.cfg.Program}, err
}

func (s *Service) orgCheck(r *http.Request) (bodies.Organization, error) {
	query, err := one(r, "org")
	if err != nil {
		return bodies.Organization{}, err
	}

	org, _, err := s.CheckOrg(r.Context(), query.Get("org"))
	return bodies.Organization{Org: org, Registered: true}, err
}

// one returns the query if it has none of the parameters twice: the two could be read differently.
func one(r *http.Request, names ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wire.InvalidRequest.New("The query cannot be parsed.")
	}

	for _, name := range names {
		if len(query[name]) > 1 {
			return nil, wire.InvalidRequest.New("The query parameter " + name + " is repeated.")
		}
	}

	return query, nil
}

func (s *Service) login(w http.ResponseWriter, r *http.Request) error {
	query, err := one(r, "org", "return_to", "confirm")
	if err != nil {
		return err
	}

	in := LoginInput{Org: query.Get("org"), ReturnTo: query.Get("return_to"), Browser: s.Browser(r), Devices: s.cfg.Sessions.Devices(r)}
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
		return code.MethodNotAllowed
	}

	query, err := one(r, "state", "code", "iss", "error")
	if err != nil {
		return err
	}

	result, err := s.Callback(r.Context(), api.CallerOf(r), CallbackInput{
		Org: r.PathValue("org"), State: query.Get("state"), Code: query.Get("code"), Issuer: query.Get("iss"), Error: query.Get("error"), Browser: s.Browser(r), Devices: s.cfg.Sessions.Devices(r),
	})
	if err != nil {
		return err
	}

	if result.Location != "" {
		w.Header().Set("Location", result.Location)
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}

	s.cfg.Sessions.SetDevice(w, r, result.SignIn)
	return api.Encode(w, http.StatusOK, result.SignIn)
}

func (s *Service) exchangeCode(r *http.Request, in bodies.ExchangeRequest) (session.SignIn, error) {
	return s.Exchange(r.Context(), api.CallerOf(r), in.Code, s.Browser(r))
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

// Browser returns the cookie, or "" if there is not exactly one.
func (s *Service) Browser(r *http.Request) string {
	cookies := r.CookiesNamed(s.cookieName())
	if len(cookies) != 1 {
		return ""
	}

	return cookies[0].Value
}

// startedElsewhere reports whether another site may have started the login: it could replace the
// session of the user by one of another account. Browsers send Sec-Fetch-Site, except old ones and
// those that reach the hub by http. Without it, a Referer of the hub is a signal too, and the login
// is only suspicious in a browser that has the cookie of a login: a program has neither.
func (s *Service) startedElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: the user typed the address or opened a bookmark
		return false
	case "":
	default:
		return true
	}

	if referer := r.Header.Get("Referer"); referer != "" {
		return referer != s.cfg.PublicURL && !strings.HasPrefix(referer, s.cfg.PublicURL+"/")
	}

	return len(r.CookiesNamed(s.cookieName())) > 0
}

// confirmation returns the parameter that confirms a login in the browser. Another site does not
// know the cookie.
func confirmation(browser string, in LoginInput) string {
	return hex.EncodeToString(hash("confirm\x00" + browser + "\x00" + in.Org + "\x00" + in.ReturnTo))
}

// confirmed reports whether the user confirmed the login.
func confirmed(given string, in LoginInput) bool {
	return isToken(in.Browser) && subtle.ConstantTimeCompare([]byte(given), []byte(confirmation(in.Browser, in))) == 1
}

// askToConfirm responds with a page that continues the login. It starts nothing.
func (s *Service) askToConfirm(w http.ResponseWriter, r *http.Request, in LoginInput) error {
	if fault := checkReturnTo(in.ReturnTo); fault != "" {
		return api.Fields{"return_to": fault}
	}

	org, _, err := s.CheckOrg(r.Context(), in.Org)
	if err != nil {
		return err
	}

	if !isToken(in.Browser) {
		in.Browser = newToken()
	}

	query := url.Values{"confirm": {confirmation(in.Browser, in)}}
	for name, value := range map[string]string{"org": in.Org, "return_to": in.ReturnTo} {
		if value != "" {
			query.Set(name, value)
		}
	}

	http.SetCookie(w, s.cookie(in.Browser))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err = fmt.Fprintf(w, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in</title></head>
<body><h1>Sign in to %s?</h1>
<p>Another site opened this page. Continue only if you want to sign in.</p>
<p><a href="%s">Continue</a></p></body></html>
`, html.EscapeString(org), html.EscapeString(s.cfg.PublicURL+"/auth/login?"+query.Encode()))
	return err
}

func (s *Service) clientRoutes() []api.Route {
	route := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: "/api/v1/ops/tenant-clients" + path, Access: api.Open, NoChallenge: true, Handle: s.withOpsKey(handle)}
	}
	return []api.Route{
		route(http.MethodPost, "", s.upsertClient),
		route(http.MethodGet, "", api.ListOf(func(ctx context.Context, _ api.Caller, page api.Page) (api.List[wire.TenantClient], error) {
			return s.Clients(ctx, page)
		})),
		route(http.MethodDelete, "/:org", api.DoneBy("org", s.DeleteClient)),
	}
}

// withOpsKey rejects requests without the key of the operations interface. A wrong key is recorded
// in the log of the system.
func (s *Service) withOpsKey(handle api.Handler) api.Handler {
	const message = `Send the key of the operations interface as "X-Ops-Key: KEY".`
	return func(w http.ResponseWriter, r *http.Request) error {
		keys := r.Header.Values("X-Ops-Key")
		if len(keys) == 0 || len(keys) == 1 && keys[0] == "" {
			return wire.Unauthenticated.New(message)
		}

		if len(keys) > 1 || !s.isOpsKey(keys[0]) {
			return api.WrongKey(message)
		}

		return handle(w, r)
	}
}

func (s *Service) upsertClient(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[clientInput](w, r)
	if err != nil {
		return err
	}

	client, created, err := s.UpsertClient(r.Context(), api.CallerOf(r), in.TenantClientRequest)
	if err != nil {
		return err
	}

	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}

	return api.Encode(w, status, client)
}

func (s *Service) backchannelLogout(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}

	tokens := r.PostForm["logout_token"]
	if len(tokens) != 1 || tokens[0] == "" {
		return wire.InvalidRequest.New("Send one logout_token as application/x-www-form-urlencoded.")
	}

	if err := s.BackchannelLogout(r.Context(), api.CallerOf(r), tokens[0]); err != nil {
		return err
	}

	w.WriteHeader(http.StatusOK)
	return nil
}
