package external

import (
	"bytes"
	"context"
	"crypto"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/user"
	"github.com/seed93082962/agenthost/internal/excerpt"
)

const (
	tokenSkew  = time.Minute // by which the clock of a provider may be ahead
	maxSubject = 255         // bytes (OpenID Connect Core 1.0, section 2)

	// The ages above which the keys are read again for a token with an unknown signature. Anyone can
	// send a logout token. An ID token comes from the provider, whose faults must not double its load.
	keysAgainForLogin  = time.Second
	keysAgainForLogout = 10 * time.Second
)

// claims are the claims of a token, by their exact names. A claim of an unexpected type counts as
// missing.
type claims map[string]json.RawMessage

// parseClaims returns the claims of a payload, in which each name occurs once in its object:
// readers of JSON differ in which of two values they take.
func parseClaims(payload []byte) (all claims, err error) {
	if err := checkNames(payload); err != nil {
		return nil, err
	}
	err = json.Unmarshal(payload, &all)
	return all, err
}

// maxNesting bounds the depth of the JSON of others.
const maxNesting = 32

// checkNames returns an error if a name occurs twice in an object of JSON.
func checkNames(data []byte) error {
	type object struct {
		names map[string]bool // nil for an array
		value bool            // the next token is the value of a name
	}
	var open []object
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil // json.Unmarshal reports text that is incomplete
		}
		if err != nil {
			return err
		}
		top := len(open) - 1
		if name, ok := token.(string); ok && top >= 0 && open[top].names != nil && !open[top].value {
			if open[top].names[name] {
				return fmt.Errorf("the member %q occurs twice", excerpt.Characters(api.Plain(name), maxCause))
			}
			open[top].names[name], open[top].value = true, true
			continue
		}
		if top >= 0 {
			open[top].value = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, object{names: map[string]bool{}})
		case json.Delim('['):
			open = append(open, object{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
		}
		if len(open) > maxNesting {
			return errors.New("the JSON nests too deeply")
		}
	}
}

func (c claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}

// texts returns the values of a claim that is a text, a truth value or a list of texts.
func (c claims) texts(name string) []string {
	var one string
	var flag bool
	var list []string
	switch raw := c[name]; {
	case raw == nil || string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &one) == nil:
		return []string{one}
	case json.Unmarshal(raw, &flag) == nil:
		return []string{strconv.FormatBool(flag)}
	case json.Unmarshal(raw, &list) == nil:
		return list
	}
	return nil
}

func (c claims) seconds(name string) (time.Time, bool) {
	var n float64
	if raw := c[name]; raw == nil || string(raw) == "null" || json.Unmarshal(raw, &n) != nil || n < 0 || n > 1<<40 {
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

func proofOf(raw string, again time.Duration) *proof {
	return &proof{raw: raw, again: again, known: map[string]verdict{}}
}

// verify returns the header and the claims of a token of the client's issuer for the client, signed
// and within its time.
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
	key, text, err := s.certOf(c)
	if err != nil {
		return jose.Header{}, nil, err
	}
	by := "issuer " + c.Issuer
	if key != nil {
		by = "certificate " + text
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
// nil. They are read again if none of them made it.
func (s *Service) signedBy(ctx context.Context, c client, key crypto.PublicKey, t *proof) (header jose.Header, payload []byte, err error) {
	p := s.providers.get(c.Issuer)
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
func (s *Service) user(ctx context.Context, c client, f flow, raw string) (u user.External, all claims, err error) {
	header, all, err := s.verify(ctx, c, proofOf(raw, keysAgainForLogin))
	if err != nil {
		return u, nil, err
	}
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); typ != "" && !strings.EqualFold(typ, "JWT") {
		return u, nil, errors.New("the token is not an ID token")
	}
	if subtle.ConstantTimeCompare(hash(all.text("nonce")), f.nonceHash) == 0 {
		return u, nil, errors.New("the token belongs to another login")
	}
	if err := checkKind(all); err != nil {
		return u, nil, err
	}
	if _, owned := all["owner"]; !owned && c.Provider == providerCasdoor {
		return u, nil, errors.New("the token does not name the organization of the user")
	}
	subject := all.text("sub")
	if !isSubject(subject) {
		return u, nil, errors.New("the token has no usable subject")
	}
	u = user.External{TenantID: c.Org, Issuer: c.Issuer, Subject: subject, SessionID: all.text("sid")}
	if s.admins[admin{c.Org, "", subject}] {
		u.Admin, u.AdminKey = true, subjectKey+subject
	}
	if u.SessionID != "" && !isSubject(u.SessionID) {
		return u, nil, errors.New("the token has no usable session")
	}
	if err := s.describe(&u, all, c); err != nil {
		return u, nil, err
	}
	return u, all, nil
}

// subjectKey begins the key of a bootstrap admin by subject. A configured username has no slash.
const subjectKey = "/sub:"

// describe sets the names and the address of a user, if they are missing. The username is
// preferred_username, else name. A name makes its user an admin only in Casdoor, where it is the
// login name: elsewhere users change it as they like.
func (s *Service) describe(u *user.External, all claims, c client) error {
	if err := checkOwner(all, c); err != nil {
		return err
	}
	preferred, name := all.text("preferred_username"), all.text("name")
	if u.Username == "" {
		if u.Username = preferred; preferred == "" {
			u.Username = name
		}
		if (preferred != "" || ofCasdoor(all, c)) && s.admins[admin{u.TenantID, u.Username, ""}] {
			u.Admin = true
		}
	}
	if u.DisplayName == "" {
		if u.DisplayName = all.text("displayName"); u.DisplayName == "" {
			u.DisplayName = name
		}
	}
	if u.Email == "" {
		u.Email = all.text("email")
	}
	return nil
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
	return c.Provider == providerCasdoor || c.global != nil && owned
}

// isSubject reports whether an identifier of a provider can be stored.
func isSubject(s string) bool {
	return s != "" && len(s) <= maxSubject && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// userinfo completes a user and the claims from the userinfo endpoint. Claims of the ID token take
// precedence.
func (s *Service) userinfo(ctx context.Context, c client, url, token string, u *user.External, all claims) error {
	body, err := s.getJSON(ctx, url, token)
	if err != nil {
		return unavailable(fmt.Errorf("read userinfo of %s: %w", u.Issuer, err))
	}
	more, err := parseClaims(body)
	if err != nil {
		return upstreamFailed(fmt.Errorf("read userinfo of %s: %w", u.Issuer, err))
	}
	if more.text("sub") != u.Subject { // OpenID Connect Core 1.0, section 5.3.2
		return errors.New("the userinfo is that of another user")
	}
	if err := s.describe(u, more, c); err != nil {
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
	_, ours := errors.AsType[*api.Error](err)
	return !ours && !db.Unavailable(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
