package external

import (
	"cmp"
	"context"
	"crypto"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	strict "github.com/go-jose/go-jose/v4/json" // names are exact, and not repeated

	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

const (
	tokenSkew  = time.Minute // by which the clock of a provider may be ahead
	maxSubject = 255         // bytes (OpenID Connect Core 1.0, section 2)

	// Bounds of the JSON of others.
	maxNesting    = 32
	maxClaimsJSON = 1 << 15 // values

	// The ages above which the keys are read again for a token with an unknown signature. Anyone can
	// send a logout token. An ID token comes from the provider, whose faults must not double its load.
	keysAgainForLogin  = time.Second
	keysAgainForLogout = 10 * time.Second
)

// claims are the claims of a token, by their exact names. A claim of an unexpected type counts as
// missing.
type claims map[string]any

// parseClaims returns the claims of a payload, in which each name occurs once in its object:
// readers of JSON differ in which of two values they take.
func parseClaims(payload []byte) (claims, error) {
	if err := (jsonlimit.Limit{Values: maxClaimsJSON, Depth: maxNesting}).Check(payload); err != nil {
		return nil, err
	}

	var all claims
	err := strict.Unmarshal(payload, &all)
	return all, err
}

func (c claims) text(name string) string {
	s, _ := c[name].(string)
	return s
}

// texts returns the values of a claim that is a text, a truth value or a list of texts.
func (c claims) texts(name string) []string {
	var all []string
	switch value := c[name].(type) {
	case string:
		return []string{value}
	case bool:
		return []string{strconv.FormatBool(value)}
	case []any:
		for _, item := range value {
			text, ok := item.(string)
			if !ok {
				return nil
			}

			all = append(all, text)
		}
	}

	return all
}

func (c claims) seconds(name string) (time.Time, bool) {
	n, ok := c[name].(float64)
	if !ok || n < 0 || n > 1<<40 {
		return time.Time{}, false
	}

	return time.Unix(int64(n), 0), true
}

// proof is a token whose signature is verified at most once with each key.
type proof struct {
	raw   string
	again time.Duration // an unknown signature reads keys again that are older
	known map[string]verdict
}

// verdict is the result of a verification.
type verdict struct {
	header jose.Header
	claims claims
	err    error
}

// verify returns the header and the claims of a token of the client's issuer for the client, signed
// and within its time. The verifier of go-oidc accepts claims whose names are in another letter
// case, and the last of two with one name.
func (s *Service) verify(ctx context.Context, c client, p *proof) (jose.Header, claims, error) {
	header, all, err := s.signed(ctx, c, p)
	if err != nil {
		return header, nil, err
	}

	if all.text("iss") != c.Issuer {
		return header, nil, errors.New("the token is that of another issuer")
	}

	audience := all.texts("aud")
	if !slices.Contains(audience, c.ClientID) {
		return header, nil, errors.New("the token is for another client")
	}

	now := s.store.Now()
	if expires, ok := all.seconds("exp"); !ok || !now.Before(expires) {
		return header, nil, errors.New("the token has no expiry, or has expired")
	}

	latest := now.Add(tokenSkew)
	if issued, ok := all.seconds("iat"); !ok || issued.After(latest) {
		return header, nil, errors.New("the token has no time of issue, or one in the future")
	}

	if from, ok := all.seconds("nbf"); ok && from.After(latest) {
		return header, nil, errors.New("the token is not valid yet")
	}

	if azp := all.text("azp"); azp != "" && azp != c.ClientID || azp == "" && len(audience) > 1 {
		return header, nil, errors.New("the token was issued to another client")
	}

	return header, all, nil
}

// signed verifies the signature with the certificate of the client, or with the published keys of
// the issuer.
func (s *Service) signed(ctx context.Context, c client, t *proof) (jose.Header, claims, error) {
	by := "issuer " + c.Issuer
	var key crypto.PublicKey
	if c.certEnc != nil {
		cert, err := s.open(c, c.certEnc, sealedCert.Place(c.Org))
		if err != nil {
			return jose.Header{}, nil, err
		}

		if key, err = parseCert(cert); err != nil {
			return jose.Header{}, nil, err
		}

		by = "certificate " + cert
	}

	v, ok := t.known[by]
	if !ok {
		var payload []byte
		v.header, payload, v.err = s.signedBy(ctx, c, key, t)
		if v.err == nil {
			v.claims, v.err = parseClaims(payload)
		}

		t.known[by] = v
	}

	return v.header, v.claims, v.err
}

// signedBy verifies the signature with a key, or with the published keys of the issuer if key is
// nil. They are read again if none of them made it. It returns the header and the payload.
func (s *Service) signedBy(ctx context.Context, c client, key crypto.PublicKey, t *proof) (jose.Header, []byte, error) {
	p := s.provider(c.Issuer)
	var header jose.Header
	var payload []byte
	var err error
	check := func(algs []string, keys []publicKey) error {
		select {
		case p.verify <- struct{}{}:
			defer func() { <-p.verify }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}

		header, payload, err = s.checkSignature(t.raw, algs, keys)
		return err
	}
	if key != nil {
		err = check(algorithmsOf(key), []publicKey{{key: key}})
		return header, payload, err
	}

	meta, err := s.metadata(ctx, p)
	if err != nil {
		return header, nil, err
	}

	keys, fetched, err := s.keysOf(ctx, p, meta.KeysURL, keysLife)
	if err != nil {
		return header, nil, err
	}

	if err = check(meta.Algorithms, keys); !errors.Is(err, errSignature) {
		return header, payload, err
	}

	keys, fetches, failed := s.keysOf(ctx, p, meta.KeysURL, t.again) // a new key may have been published
	if failed != nil {
		return header, nil, failed
	}

	if fetches == fetched {
		return header, nil, err
	}

	err = check(meta.Algorithms, keys)
	return header, payload, err
}

// user returns the user of the ID token of a login.
func (s *Service) user(ctx context.Context, c client, f flow, raw string) (user.External, claims, error) {
	header, all, err := s.verify(ctx, c, &proof{raw: raw, again: keysAgainForLogin, known: map[string]verdict{}})
	if err != nil {
		return user.External{}, nil, err
	}

	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); typ != "" && !strings.EqualFold(typ, "JWT") {
		return user.External{}, nil, errors.New("the token is not an ID token")
	}

	if subtle.ConstantTimeCompare(hash(all.text("nonce")), f.nonceHash) == 0 {
		return user.External{}, nil, errors.New("the token belongs to another login")
	}

	if err := checkKind(all); err != nil {
		return user.External{}, nil, err
	}

	if _, owned := all["owner"]; !owned && c.Provider == providerCasdoor {
		return user.External{}, nil, errors.New("the token does not name the organization of the user")
	}

	subject := all.text("sub")
	if !isSubject(subject) {
		return user.External{}, nil, errors.New("the token has no usable subject")
	}

	u := user.External{TenantID: c.Org, Issuer: c.Issuer, Subject: subject, SessionID: all.text("sid")}
	if s.admins[admin{org: c.Org, subject: subject}] {
		u.Admin, u.AdminKey = true, subjectKey+subject
	}

	if u.SessionID != "" && !isSubject(u.SessionID) {
		return u, nil, errors.New("the token has no usable session")
	}

	return u, all, checkOwner(all, c)
}

// subjectKey begins the key of a bootstrap admin by subject. A configured username has no slash.
const subjectKey = "/sub:"

// describe sets the names and the address of a user. The username is preferred_username, else name.
// A name makes its user an admin only in Casdoor, where it is the login name: elsewhere users
// change it as they like.
func (s *Service) describe(u *user.External, all claims, c client) {
	preferred, name := all.text("preferred_username"), all.text("name")
	u.Username = cmp.Or(preferred, name)
	u.DisplayName = cmp.Or(all.text("displayName"), name)
	u.Email = all.text("email")
	if (preferred != "" || ofCasdoor(all, c)) && s.admins[admin{org: u.TenantID, username: u.Username}] {
		u.Admin = true
	}
}

// checkKind rejects refresh tokens, however the claim with the kind of the token is spelled:
// tokenType, TokenType, token_type, typ, token_use.
func checkKind(all claims) error {
	for name, value := range all {
		switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)) {
		case "tokentype", "typ", "type", "tokenuse", "use":
			if text := strings.ToLower(fmt.Sprint(value)); strings.Contains(text, "refresh") || strings.Contains(text, "offline") {
				return errors.New("the token is a refresh token")
			}
		}
	}

	return nil
}

// checkOwner requires that a user of Casdoor belongs to the organization of the client: an
// application may be shared by several. The claim owner is checked whatever the kind of the client
// is, since a client of Casdoor may be registered as one of OpenID Connect.
func checkOwner(all claims, c client) error {
	if _, owned := all["owner"]; owned && all.text("owner") != c.Org {
		return fmt.Errorf("the user belongs to another organization than %s", c.Org)
	}

	return nil
}

// ofCasdoor reports whether Casdoor issued the token. The global client has no kind.
func ofCasdoor(all claims, c client) bool {
	_, owned := all["owner"]
	return c.Provider == providerCasdoor || c.global && owned
}

// isSubject reports whether an identifier of a provider can be stored.
func isSubject(s string) bool {
	return s != "" && len(s) <= maxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// userinfo completes the claims of a user from the userinfo endpoint. Those of the ID token take
// precedence.
func (s *Service) userinfo(ctx context.Context, c client, url, token string, all claims) error {
	body, err := s.getJSON(ctx, url, token)
	if err != nil {
		return unavailable(fmt.Errorf("read userinfo of %s: %w", c.Issuer, err))
	}

	more, err := parseClaims(body)
	if err != nil {
		return upstreamFailed(fmt.Errorf("read userinfo of %s: %w", c.Issuer, err))
	}

	if more.text("sub") != all.text("sub") { // OpenID Connect Core 1.0, section 5.3.2
		return errors.New("the userinfo is that of another user")
	}

	if err := checkOwner(more, c); err != nil {
		return err
	}

	for name, value := range more {
		if _, known := all[name]; !known {
			all[name] = value
		}
	}

	return nil
}

// isRejection reports whether err is a fault of the token, and not one of the provider or the hub,
// which has a response of its own.
func isRejection(err error) bool {
	_, ours := errors.AsType[*wire.Error](err)
	return !ours && !db.Unavailable(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
