package external

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	// logoutEvent is the event of a logout token (OpenID Connect Back-Channel Logout 1.0, section
	// 2.4).
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

	// maxLogoutLife bounds how long a logout token is valid, because used ones are stored so long.
	maxLogoutLife = time.Hour
)

// rejectedLogout is how many accepted logout tokens a rejected one counts as, for the limit of a
// network.
const rejectedLogout = 12

var errLogoutToken = wire.InvalidRequest.New("The logout_token is not valid for a client of this hub.")

// BackchannelLogout ends the sessions that a logout token names, in each organization of its
// client. A token that was used has no effect.
func (s *Service) BackchannelLogout(ctx context.Context, from api.Caller, raw string) error {
	if wait := s.logouts.take(api.NetworkOf(from.RemoteIP), rejectedLogout); wait > 0 {
		return &wire.Error{Code: wire.RateLimited, RetryAfter: wait}
	}

	clients, err := s.clientsOfToken(ctx, raw)
	if err != nil {
		return err
	}

	token := &proof{raw: raw, again: keysAgainForLogout, known: map[string]verdict{}}
	done, fault := false, error(errLogoutToken)
	for _, c := range clients { // the fault of one organization does not prevent the logout of another
		out, err := s.logoutOf(ctx, c, token)
		if err != nil && isRejection(err) {
			s.store.Logger.Debug("logout token rejected", "tenant", c.Org, "err", err)
			continue
		}

		if err == nil {
			err = s.logout(ctx, from, out)
		}

		if err != nil {
			s.store.Logger.Warn("logout failed", "tenant", c.Org, "err", err)
			fault = err
			continue
		}

		done = true
	}

	if !done {
		return fault
	}

	s.logouts.give(api.NetworkOf(from.RemoteIP), rejectedLogout-1)
	return nil
}

// clientsOfToken returns the clients that the token may be for. Its claims are not verified yet.
func (s *Service) clientsOfToken(ctx context.Context, raw string) ([]client, error) {
	jws, err := parseToken(raw, algorithms)
	if err != nil {
		return nil, errLogoutToken
	}

	all, err := parseClaims(jws.UnsafePayloadWithoutVerification())
	if err != nil {
		return nil, errLogoutToken
	}

	audience := all.texts("aud")
	if len(audience) != 1 {
		return nil, errLogoutToken
	}

	issuer := all.text("iss")
	if strings.ContainsRune(issuer+audience[0], 0) {
		return nil, errLogoutToken
	}

	clients, err := clientsByID(ctx, s.store.Read(), issuer, audience[0])
	if err != nil {
		return nil, err
	}

	if g := s.global; g != nil && g.Issuer == issuer && g.ClientID == audience[0] {
		clients = append(clients, *g)
	}

	return clients, nil
}

// logoutOf verifies a logout token (section 2.6).
func (s *Service) logoutOf(ctx context.Context, c client, token *proof) (logoutToken, error) {
	header, all, err := s.verify(ctx, c, token)
	if err != nil {
		return logoutToken{}, err
	}

	typ, _ := header.ExtraHeaders[jose.HeaderType].(string)
	if typ != "" && !strings.EqualFold(typ, "logout+jwt") && !strings.EqualFold(typ, "JWT") {
		return logoutToken{}, errors.New("the token is not a logout token")
	}

	events, _ := all["events"].(map[string]any)
	if _, ok := events[logoutEvent].(map[string]any); !ok {
		return logoutToken{}, errors.New("the token has no logout event")
	}

	if _, has := all["nonce"]; has {
		return logoutToken{}, errors.New("the token has a nonce: it is an ID token")
	}

	expires, ok := all.seconds("exp")
	id := all.text("jti")
	if !ok || expires.After(s.store.Now().Add(maxLogoutLife)) || id == "" {
		return logoutToken{}, errors.New("the token has no identifier, or is valid for too long")
	}

	var out logoutToken
	out.ExternalLogout = session.ExternalLogout{
		TenantID: c.Org, Issuer: c.Issuer, Subject: all.text("sub"), SessionID: all.text("sid"), Tokens: c.LogoutRevokesTokens,
	}
	if out.Subject == "" && out.SessionID == "" || strings.ContainsRune(out.Subject+out.SessionID, 0) {
		return out, errors.New("the token names neither a user nor a session")
	}

	// Not the text of the token: the same one can be encoded in several forms.
	out.key, out.expires = hash(strings.Join([]string{c.Org, c.Issuer, c.ClientID, id}, "\x00")), expires
	return out, nil
}

// logoutToken is a verified logout token.
type logoutToken struct {
	session.ExternalLogout
	key     []byte // by which it is recognized when it is used again
	expires time.Time
}

func (s *Service) logout(ctx context.Context, from api.Caller, out logoutToken) error {
	used, err := logoutTokenUsed(ctx, s.store.Read(), out.key)
	if err != nil || used {
		return err
	}

	// Logins that the console has not completed end too.
	if err := deleteCodes(ctx, s.store.DB.Write(), out.ExternalLogout); err != nil {
		return err
	}

	if err := s.cfg.Sessions.EndExternalSessions(ctx, from, out.ExternalLogout); err != nil {
		return err
	}

	return insertLogoutToken(ctx, s.store.DB.Write(), out.key, out.expires.Add(tokenSkew))
}
