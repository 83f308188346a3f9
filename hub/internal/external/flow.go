package external

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/seed93082962/agenthost/hub/internal/store"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
)

const (
	flowLife    = 10 * time.Minute
	codeLife    = time.Minute
	maxReturnTo = 1024 // bytes
)

// flow is a login between its start and its callback.
type flow struct {
	stateHash   []byte
	browserHash []byte // of the cookie of the browser that started it
	org         string
	issuer      string
	clientID    string
	callback    string // the path of the redirect URI
	nonceHash   []byte
	verifierEnc []byte
	returnTo    string // a path of the console, or "" for a JSON response
	expiresAt   time.Time
}

// newToken returns a token of 256 random bits.
func newToken() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func hash(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// globalCallback is the path of the redirect URI of the global client.
const globalCallback = "/auth/callback"

// callback returns the path of the client's redirect URI. Each client has its own: a provider
// cannot obtain a code of another one, because the code arrives at the path of the client that it
// was issued to, and the login at the path of the client that it was started with.
func (c client) callback() string {
	if c.global {
		return globalCallback
	}
	return globalCallback + "/" + c.Org
}

func (s *Service) oauth(c client, m metadata) (*oauth2.Config, error) {
	plain, err := s.open(c, c.secretEnc, sealedSecret.Place(c.Org, c.Issuer))
	if err != nil {
		return nil, err
	}
	style := m.authStyle()
	if c.Provider == providerCasdoor {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: c.ClientID, ClientSecret: plain, RedirectURL: s.cfg.PublicURL + c.callback(),
		Endpoint: oauth2.Endpoint{AuthURL: m.AuthURL, TokenURL: m.TokenURL, AuthStyle: style}, Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}, nil
}

// LoginInput starts a login.
type LoginInput struct {
	Org      string // Defaults to the default organization.
	ReturnTo string // a path of the console, or "" for a JSON response of the callback
	Browser  string // the cookie, or ""
	Devices  string // the device tokens of the browser, or ""
}

// StartLogin returns the address of the identity provider to which the browser has to go, and the
// cookie that it has to have at the callback.
func (s *Service) StartLogin(ctx context.Context, from api.Caller, in LoginInput) (location, browser string, err error) {
	if fault := checkReturnTo(in.ReturnTo); fault != "" {
		return "", "", api.Fields{"return_to": fault}
	}
	if err := s.admitStart(ctx, from, in); err != nil {
		return "", "", err
	}
	c, err := s.clientFor(ctx, in.Org)
	if err != nil {
		return "", "", err
	}
	p := s.provider(c.Issuer)
	end, err := p.begin()
	if err != nil {
		return "", "", err
	}
	defer end()
	m, err := s.metadata(ctx, p)
	if err != nil {
		return "", "", err
	}
	oauth, err := s.oauth(c, m)
	if err != nil {
		return "", "", err
	}
	browser = in.Browser
	if !isToken(browser) {
		browser = newToken()
	}
	state, nonce, verifier := newToken(), newToken(), oauth2.GenerateVerifier()
	f := flow{
		stateHash: hash(state), browserHash: hash(browser), org: c.Org, issuer: c.Issuer, clientID: c.ClientID, callback: c.callback(),
		nonceHash: hash(nonce), returnTo: in.ReturnTo, expiresAt: s.store.Now().Add(flowLife),
	}
	f.verifierEnc = s.store.Keyring.Seal([]byte(verifier), verifierPlace(f))
	if err := insertFlow(ctx, s.store.DB.Write(), f); err != nil {
		return "", "", err
	}
	return oauth.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oidc.Nonce(nonce)), browser, nil
}

func verifierPlace(f flow) []byte {
	return secret.AAD("login_flows", "verifier_enc", hex.EncodeToString(f.stateHash))
}

// isToken reports whether the text has the form that newToken returns.
func isToken(s string) bool {
	return len(s) == 64 && !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// checkReturnTo returns the fault of a path of the console, or "".
func checkReturnTo(to string) string {
	if to == "" {
		return ""
	}
	const fault = "must be a path below /console/ of this hub, without a fragment"
	u, err := url.Parse(to)
	if err != nil || len(to) > maxReturnTo || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || strings.ContainsAny(to, "\\#") ||
		strings.ContainsFunc(to, func(r rune) bool { return r > '~' || r <= ' ' || unicode.IsControl(r) }) {
		return fault
	}
	clean := path.Clean(u.Path)
	if u.RawPath != "" || clean != "/console" && !strings.HasPrefix(clean, "/console/") || strings.TrimSuffix(u.Path, "/") != clean || u.Path != u.EscapedPath() {
		return fault
	}
	return ""
}

// CallbackInput is the response of the identity provider, by way of the browser.
type CallbackInput struct {
	Org     string // of the path, or "" for that of the global client
	State   string
	Code    string
	Issuer  string // the parameter iss (RFC 9207), or ""
	Error   string // the code of an error, or ""
	Browser string // the cookie, or ""
	Devices string // the device tokens of the browser, or ""
}

// CallbackResult is the session of a login. A login that the console started has instead the
// address to which the browser has to go, with a code or an error in the fragment.
type CallbackResult struct {
	SignIn   session.SignIn
	Location string
}

// errFlow does not distinguish an unknown login from one of another browser.
var errFlow = wire.InvalidRequest.New("The login is unknown, complete, older than 10 minutes, or was started in another browser: start again.")

// errRejected is the response to all faults of the identity provider's answer; the log has the
// cause.
var errRejected = wire.InvalidCredentials.New("The identity provider did not confirm the login: start again.")

// errNotPermitted is the response to a user without the required claim.
var errNotPermitted = wire.InvalidCredentials.New("Your account has no access to this organization: ask its administrator.")

// Callback completes a login.
func (s *Service) Callback(ctx context.Context, from api.Caller, in CallbackInput) (CallbackResult, error) {
	if !isToken(in.State) || !isToken(in.Browser) {
		return CallbackResult{}, errFlow
	}
	f, err := takeFlow(ctx, s.store.DB.Write(), hash(in.State), hash(in.Browser), s.store.Now())
	if errors.Is(err, errNoFlow) {
		return CallbackResult{}, errFlow
	}
	if err != nil {
		return CallbackResult{}, err
	}
	result, err := s.complete(ctx, from, f, in)
	if err == nil || f.returnTo == "" {
		return result, err
	}
	code := codeOf(err)
	if code.Status() >= http.StatusInternalServerError {
		s.store.Logger.Warn("login failed", "tenant", f.org, "err", err)
	}
	return CallbackResult{Location: s.cfg.PublicURL + f.returnTo + "#error=" + string(code)}, nil
}

// codeOf returns the code that the response to err would have.
func codeOf(err error) wire.Code {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	if code, ok := errors.AsType[wire.Code](err); ok {
		return code
	}
	if errors.Is(err, db.ErrUnavailable) {
		return wire.Unavailable
	}
	return wire.InternalError
}

// complete authenticates the user of a login and starts the session, or stores the user for the
// exchange.
func (s *Service) complete(ctx context.Context, from api.Caller, f flow, in CallbackInput) (CallbackResult, error) {
	u, err := s.authenticate(ctx, from, f, in)
	if err != nil {
		return CallbackResult{}, err
	}
	if f.returnTo == "" {
		u.Registered = s.registered(f.org, f.issuer, f.clientID, f.callback)
		signIn, err := s.cfg.Sessions.SignInExternal(ctx, from, u)
		return CallbackResult{SignIn: signIn}, err
	}
	code := newToken()
	if err := insertCode(ctx, s.store.DB.Write(), hash(code), f.browserHash, u, s.store.Now().Add(codeLife)); err != nil {
		return CallbackResult{}, err
	}
	return CallbackResult{Location: s.cfg.PublicURL + f.returnTo + "#code=" + code}, nil
}

// Reasons of rejected logins, in the audit log.
const (
	reasonDenied  = "provider_error"
	reasonMixUp   = "callback_mismatch"
	reasonIssuer  = "issuer_mismatch"
	reasonChanged = "client_changed"
	reasonCode    = "code_rejected"
	reasonToken   = "token_rejected"
	reasonClaim   = "claim_missing"
)

// authenticate exchanges the code and verifies the token of the user.
func (s *Service) authenticate(ctx context.Context, from api.Caller, f flow, in CallbackInput) (u user.External, err error) {
	attempt, err := s.cfg.Sessions.StartExternal(ctx, from, f.org, in.Devices)
	if err != nil {
		return u, err
	}
	reject := func(reason string, cause error) error {
		s.store.Logger.Info("login rejected", "tenant", f.org, "reason", reason, "err", cause)
		return s.cfg.Sessions.RejectExternal(ctx, attempt, reason, errRejected)
	}
	arrived := globalCallback
	if in.Org != "" {
		arrived += "/" + in.Org
	}
	if arrived != f.callback {
		return u, reject(reasonMixUp, errors.New("the response arrived at the redirect URI of another client"))
	}
	c, err := s.clientFor(ctx, f.org)
	if errors.Is(err, wire.NotFound) || err == nil && (c.Issuer != f.issuer || c.ClientID != f.clientID || c.callback() != f.callback) {
		return u, reject(reasonChanged, errors.New("the client was changed during the login"))
	}
	if err != nil {
		return u, err
	}
	p := s.provider(c.Issuer)
	end, err := p.begin()
	if err != nil {
		return u, err
	}
	defer end()
	m, err := s.metadata(ctx, p)
	if err != nil {
		return u, err
	}
	if in.Issuer != "" && in.Issuer != c.Issuer || in.Issuer == "" && m.SendsIssuer { // RFC 9207, section 2.4
		return u, reject(reasonIssuer, errors.New("the response is that of another issuer"))
	}
	if in.Error != "" || in.Code == "" {
		return u, reject(reasonDenied, errors.New("the identity provider returned an error"))
	}
	token, err := s.exchange(ctx, c, m, f, in.Code)
	if err != nil && isRejection(err) {
		return u, reject(reasonCode, err)
	}
	if err != nil {
		return u, err
	}
	raw, _ := token.Extra("id_token").(string)
	if c.Provider == providerCasdoor {
		raw = cmp.Or(raw, token.AccessToken) // they are the same
	}
	u, all, err := s.user(ctx, c, f, raw)
	if err == nil && m.UserinfoURL != "" && (all.text("preferred_username") == "" && all.text("name") == "" || c.lacks(all)) {
		err = s.userinfo(ctx, c, m.UserinfoURL, token.AccessToken, all)
	}
	if err != nil && isRejection(err) {
		return u, reject(reasonToken, err)
	}
	if err != nil {
		return u, err
	}
	if !c.permits(all) {
		return u, s.cfg.Sessions.RejectExternal(ctx, attempt, reasonClaim, errNotPermitted)
	}
	s.describe(&u, all, c)
	u.Role, u.Groups = c.roleOf(all), c.groupsOf(all)
	return u, nil
}

// exchange returns the tokens of a code. An error of the code itself is a rejection.
func (s *Service) exchange(ctx context.Context, c client, m metadata, f flow, code string) (*oauth2.Token, error) {
	verifier, err := s.store.Keyring.Open(f.verifierEnc, verifierPlace(f))
	if err != nil {
		return nil, errors.New("the login was started with another encryption key")
	}
	oauth, err := s.oauth(c, m)
	if err != nil {
		return nil, err
	}
	token, err := oauth.Exchange(context.WithValue(ctx, oauth2.HTTPClient, s.http), code, oauth2.VerifierOption(string(verifier)))
	if err == nil {
		return token, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// The text of the library's error may contain the body of the response.
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	_, network := errors.AsType[*url.Error](err)
	switch {
	case ok && refused.ErrorCode == "invalid_grant":
		return nil, errors.New("the identity provider rejected the code")
	case ok && refused.Response.StatusCode >= http.StatusInternalServerError, network:
		return nil, unavailable(fmt.Errorf("exchange code with %s: no response", c.Issuer))
	case ok:
		return nil, upstreamFailed(fmt.Errorf("exchange code with %s: status %d, error %q", c.Issuer, refused.Response.StatusCode, api.Plain(refused.ErrorCode)))
	}
	return nil, upstreamFailed(fmt.Errorf("exchange code with %s: the response has no token", c.Issuer))
}

// Exchange returns the session of a login that the console started. A code works once.
func (s *Service) Exchange(ctx context.Context, from api.Caller, code, browser string) (session.SignIn, error) {
	if code == "" {
		return session.SignIn{}, api.Fields{"code": "must not be empty"}
	}
	if !isToken(code) || !isToken(browser) {
		return session.SignIn{}, errCode
	}
	u, err := takeCode(ctx, s.store.DB.Write(), hash(code), hash(browser), s.store.Now())
	if err != nil {
		return session.SignIn{}, err
	}
	u.Registered = s.registered(u.TenantID, u.Issuer, "", "")
	return s.cfg.Sessions.SignInExternal(ctx, from, u)
}

// registered returns a check that the client of a login, or one of the same issuer, is still
// registered. It locks the client: a deletion ends the session of the login, or prevents it.
func (s *Service) registered(org, issuer, clientID, callback string) func(context.Context, *store.Tx) error {
	return func(ctx context.Context, tx *store.Tx) error {
		c, err := lockClient(ctx, tx, org)
		if errors.Is(err, errNoClient) && s.global != nil && s.global.Org == org {
			c, err = s.unregistered(ctx, tx)
		}
		if errors.Is(err, errNoClient) || err == nil && (c.Issuer != issuer || clientID != "" && (c.ClientID != clientID || c.callback() != callback)) {
			return errRejected
		}
		return err
	}
}

var errCode = wire.InvalidCredentials.New("The code is unknown, was used, is older than 60 s, or belongs to another browser: sign in again.")
