package external

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/identity"
)

const (
	tokenSkew  = time.Minute // by which the clock of a provider may be ahead
	maxSubject = 255         // bytes (OpenID Connect Core 1.0, section 2)

	// The ages above which the keys are read again for a token with an unknown signature. Anyone can
	// send a logout token. An ID token comes from the provider, whose faults must not double its load.
	keysAgainForLogin  = time.Second
	keysAgainForLogout = 10 * time.Second
)

// claims are the claims of a token. A claim of an unexpected type counts as missing.
type claims map[string]json.RawMessage

func (c claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}

func (c claims) seconds(name string) (time.Time, bool) {
	var n float64
	if json.Unmarshal(c[name], &n) != nil || n < 0 || n > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(int64(n), 0), true
}

// verify returns the header and the claims of a token of the client's issuer for the client, signed
// and within its time. An unknown signature reads the keys again if they are older than again.
func (s *Service) verify(ctx context.Context, c client, raw string, again time.Duration) (jose.Header, claims, error) {
	header, payload, err := s.signed(ctx, c, raw, again)
	if err != nil {
		return header, nil, err
	}
	verifier := oidc.NewVerifier(c.Issuer, checked(payload), &oidc.Config{ClientID: c.ClientID, SupportedSigningAlgs: algorithms, Now: s.cfg.Now})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return header, nil, err
	}
	var all claims
	if err := token.Claims(&all); err != nil {
		return header, nil, err
	}
	latest := s.now().Add(tokenSkew)
	issued, ok := all.seconds("iat")
	if !ok || issued.After(latest) {
		return header, nil, errors.New("the token has no time of issue, or one in the future")
	}
	if from, ok := all.seconds("nbf"); ok && from.After(latest) {
		return header, nil, errors.New("the token is not valid yet")
	}
	if azp := all.text("azp"); azp != "" && azp != c.ClientID || azp == "" && len(token.Audience) > 1 {
		return header, nil, errors.New("the token was issued to another client")
	}
	return header, all, nil
}

// checked is the payload of a token whose signature was verified.
type checked []byte

// VerifySignature implements [oidc.KeySet].
func (p checked) VerifySignature(context.Context, string) ([]byte, error) { return p, nil }

// signed verifies the signature with the certificate of the client, or with the published keys.
func (s *Service) signed(ctx context.Context, c client, raw string, again time.Duration) (jose.Header, []byte, error) {
	cert, err := s.certOf(c)
	if err != nil {
		return jose.Header{}, nil, err
	}
	if cert != nil {
		return checkSignature(raw, algorithmsOf(cert), []publicKey{{key: cert}})
	}
	p := s.providers.get(c.Issuer)
	meta, err := s.metadata(ctx, p)
	if err != nil {
		return jose.Header{}, nil, err
	}
	var header jose.Header
	var payload []byte
	for _, life := range []time.Duration{keysLife, again} { // a new key may have been published
		keys, err := s.keysOf(ctx, p, meta.KeysURL, life)
		if err != nil {
			return header, nil, err
		}
		header, payload, err = checkSignature(raw, meta.Algorithms, keys)
		if err == nil || errors.Is(err, errNotSigned) {
			return header, payload, err
		}
	}
	return header, nil, errSignature
}

// user returns the user of the ID token of a login.
func (s *Service) user(ctx context.Context, c client, f flow, raw string) (identity.ExternalUser, error) {
	header, all, err := s.verify(ctx, c, raw, keysAgainForLogin)
	if err != nil {
		return identity.ExternalUser{}, err
	}
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); typ != "" && !strings.EqualFold(typ, "JWT") {
		return identity.ExternalUser{}, errors.New("the token is not an ID token")
	}
	if subtle.ConstantTimeCompare(hash(all.text("nonce")), f.nonceHash) == 0 {
		return identity.ExternalUser{}, errors.New("the token belongs to another login")
	}
	if err := checkKind(all); err != nil {
		return identity.ExternalUser{}, err
	}
	if err := checkOwner(all, c); err != nil {
		return identity.ExternalUser{}, err
	}
	subject := all.text("sub")
	if !isSubject(subject) {
		return identity.ExternalUser{}, errors.New("the token has no usable subject")
	}
	u := identity.ExternalUser{TenantID: c.Org, Issuer: c.Issuer, Subject: subject, SessionID: all.text("sid")}
	if u.SessionID != "" && !isSubject(u.SessionID) {
		return identity.ExternalUser{}, errors.New("the token has no usable session")
	}
	s.describe(&u, all, c)
	return u, nil
}

// describe sets the names and the address of a user, if they are missing. The username is
// preferred_username, else name. A name makes its user an admin only in Casdoor, where it is the
// login name: elsewhere users change it as they like.
func (s *Service) describe(u *identity.ExternalUser, all claims, c client) {
	preferred, name := all.text("preferred_username"), all.text("name")
	if u.Username == "" {
		if u.Username = preferred; preferred == "" {
			u.Username = name
		}
		u.Admin = (preferred != "" || ofCasdoor(all, c)) && s.admins[adminKey(u.TenantID, u.Username)]
	}
	if u.DisplayName == "" {
		if u.DisplayName = all.text("displayName"); u.DisplayName == "" {
			u.DisplayName = name
		}
	}
	if u.Email == "" {
		u.Email = all.text("email")
	}
}

// checkKind rejects refresh tokens, however the claim with the kind of the token is spelled:
// tokenType, TokenType, token_type, typ, token_use.
func checkKind(all claims) error {
	for name, value := range all {
		switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)) {
		case "tokentype", "typ", "type", "tokenuse", "use":
			var kind any // decoded, because a character may be escaped
			if json.Unmarshal(value, &kind) != nil {
				continue
			}
			if text := strings.ToLower(fmt.Sprint(kind)); strings.Contains(text, "refresh") || strings.Contains(text, "offline") {
				return errors.New("the token is a refresh token")
			}
		}
	}
	return nil
}

// checkOwner requires that a user of Casdoor belongs to the organization of the client: an
// application may be shared by several. The global client has the users of one organization.
func checkOwner(all claims, c client) error {
	if ofCasdoor(all, c) && all.text("owner") != c.Org {
		return fmt.Errorf("the user belongs to another organization than %s", c.Org)
	}
	return nil
}

// ofCasdoor reports whether Casdoor issued the token. The global client has no kind.
func ofCasdoor(all claims, c client) bool {
	_, owned := all["owner"]
	return c.Provider == providerCasdoor || c.global != nil && owned
}

// isSubject reports whether an identifier of a provider can be stored.
func isSubject(s string) bool {
	return s != "" && len(s) <= maxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// userinfo completes a user whose ID token has no name, from the userinfo endpoint.
func (s *Service) userinfo(ctx context.Context, c client, url, token string, u *identity.ExternalUser) error {
	body, err := s.getJSON(ctx, url, token)
	if err != nil {
		return unavailable(fmt.Errorf("read userinfo of %s: %w", u.Issuer, err))
	}
	var all claims
	if err := json.Unmarshal(body, &all); err != nil {
		return upstreamFailed(fmt.Errorf("read userinfo of %s: %w", u.Issuer, err))
	}
	if all.text("sub") != u.Subject { // OpenID Connect Core 1.0, section 5.3.2
		return errors.New("the userinfo is that of another user")
	}
	s.describe(u, all, c)
	return nil
}

// isRejection reports whether err is a fault of the token, and not one of the provider or the hub,
// which has a response of its own.
func isRejection(err error) bool {
	_, ours := errors.AsType[*api.Error](err)
	return !ours
}
