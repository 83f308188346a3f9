package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/store"

	"golang.org/x/oauth2"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

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

// errRejected is the response to all faults of the identity provider's answer; the log has the
// cause.
var errRejected = code.InvalidCredentials.New("The identity provider did not confirm the login: start again.")

// errNotPermitted is the response to a user without the required claim.
var errNotPermitted = code.InvalidCredentials.New("Your account has no access to this organization: ask its administrator.")

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

	failed := codeOf(err)
	if code.Status(failed) >= http.StatusInternalServerError {
		s.store.Logger.Warn("login failed", "tenant", f.org, "err", err)
	}

	return CallbackResult{Location: s.cfg.PublicURL + f.returnTo + "#error=" + string(failed)}, nil
}

// codeOf returns the code that the response to err would have.
func codeOf(err error) wire.Code {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}

	if bare, ok := errors.AsType[wire.Code](err); ok {
		return bare
	}

	if errors.Is(err, db.ErrUnavailable) {
		return wire.Unavailable
	}

	return code.InternalError
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
func (s *Service) authenticate(ctx context.Context, from api.Caller, f flow, in CallbackInput) (user.External, error) {
	attempt, err := s.cfg.Sessions.StartExternal(ctx, from, f.org, in.Devices)
	if err != nil {
		return user.External{}, err
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
		return user.External{}, reject(reasonMixUp, errors.New("the response arrived at the redirect URI of another client"))
	}

	c, err := s.clientFor(ctx, f.org)
	if errors.Is(err, wire.NotFound) || err == nil && (c.Issuer != f.issuer || c.ClientID != f.clientID || c.callback() != f.callback) {
		return user.External{}, reject(reasonChanged, errors.New("the client was changed during the login"))
	}

	if err != nil {
		return user.External{}, err
	}

	p := s.provider(c.Issuer)
	end, err := p.begin()
	if err != nil {
		return user.External{}, err
	}
	defer end()
	m, err := s.metadata(ctx, p)
	if err != nil {
		return user.External{}, err
	}

	if in.Issuer != "" && in.Issuer != c.Issuer || in.Issuer == "" && m.SendsIssuer { // RFC 9207, section 2.4
		return user.External{}, reject(reasonIssuer, errors.New("the response is that of another issuer"))
	}

	if in.Error != "" || in.Code == "" {
		return user.External{}, reject(reasonDenied, errors.New("the identity provider returned an error"))
	}

	token, err := s.exchange(ctx, c, m, f, in.Code)
	if err != nil && isRejection(err) {
		return user.External{}, reject(reasonCode, err)
	}

	if err != nil {
		return user.External{}, err
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

var errCode = code.InvalidCredentials.New("The code is unknown, was used, is older than 60 s, or belongs to another browser: sign in again.")
