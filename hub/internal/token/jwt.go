// Package token signs and verifies the access tokens of the hub, which are JWTs.
//
//	keys, err := token.New(ctx, store)
//	if err != nil { ... }
//	if err := keys.Ready(ctx); err != nil { ... }
//	raw, err := keys.Sign(token.Claims{
//		Subject: userID, Session: id, IssuedAt: now, ExpiresAt: now.Add(token.Life),
//	})
//	claims, err := keys.Verify(ctx, raw)
//
// The signing keys are in the database, where all replicas share them, sealed. A key signs for 90
// days, and verifies the last of its tokens until they expire. A token of more than 4 KiB is
// rejected before it is decoded.
//
// To replace the encryption key without an interruption, configure all replicas with "old,new",
// then all with "new,old", seal the columns of [Sealed] with the new key by [store.Store.Reseal],
// and configure all replicas with "new". A running replica that has only the old key continues to
// sign with the known signing key, which is replaced after at most 90 days. It continues to verify
// after that. [New] fails with only the old key.
package token

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	// Life is how long an access token is valid.
	Life = 15 * time.Minute

	// MaxLength is the maximum length of a token in bytes. Those of the hub have about 700.
	MaxLength = 4096

	audience  = "agenthost"
	tokenType = "at+jwt" // RFC 9068, section 2.1
	tokenSkew = 5 * time.Second
)

// Claims are the claims of an access token. Name and role are hints for a client: the hub uses
// those of the stored user.
type Claims struct {
	Subject   string // the id of the user
	Session   string
	TenantID  string
	Name      string
	Role      rbac.Role
	IssuedAt  time.Time
	ExpiresAt time.Time

	Key string // the id of the key that signed; set by Verify
}

type jwtClaims struct {
	jwt.RegisteredClaims

	Session  string    `json:"sid"`
	TenantID string    `json:"tenant_id"`
	OrgID    string    `json:"org_id"`
	Name     string    `json:"name"`
	Role     rbac.Role `json:"role"`
}

// Errors of [Keys.Verify].
var (
	ErrInvalid = errors.New("access token is not one of this hub")
	ErrExpired = errors.New("access token has expired")
)

// Sign returns an access token. Call [Keys.Ready] before the transaction of the sign-in.
func (k *Keys) Sign(c Claims) (string, error) {
	key := k.signer()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwtClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: k.issuer, Audience: jwt.ClaimStrings{audience}, Subject: c.Subject, ID: ids.Random().String(),
			IssuedAt: jwt.NewNumericDate(c.IssuedAt), NotBefore: jwt.NewNumericDate(c.IssuedAt), ExpiresAt: jwt.NewNumericDate(c.ExpiresAt),
		},
		Session: c.Session, TenantID: c.TenantID, OrgID: c.TenantID, Name: c.Name, Role: c.Role,
	})
	token.Header["typ"] = tokenType
	token.Header["kid"] = key.id
	signed, err := token.SignedString(key.private)
	if err != nil {
		return "", fmt.Errorf("sign access token: %w", err)
	}

	return signed, nil
}

// Verify returns the subject, the session, the expiry and the key of an access token of this hub.
// The error is ErrInvalid, ErrExpired, or that of the database if the key could not be searched.
func (k *Keys) Verify(ctx context.Context, raw string) (Claims, error) {
	if len(raw) > MaxLength {
		return Claims{}, ErrInvalid
	}

	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(k.issuer), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(tokenSkew), jwt.WithTimeFunc(k.store.Now),
	)
	var claims jwtClaims
	var kid string
	var unknown error
	_, err := parser.ParseWithClaims(raw, &claims, func(t *jwt.Token) (any, error) {
		id, ok := t.Header["kid"].(string)
		// A header of the hub has only alg, typ and kid. Other fields (jwk, jku, x5c, crit) would
		// name a key or a rule of the sender.
		if !ok || len(t.Header) != 3 || t.Header["typ"] != tokenType {
			return nil, ErrInvalid
		}

		public, err := k.public(ctx, id)
		if err != nil {
			unknown = err
			return nil, err
		}

		if public == nil {
			return nil, ErrInvalid
		}

		kid = id
		return public, nil
	})
	switch {
	case unknown != nil:
		return Claims{}, unknown
	case err == nil:
		return Claims{Subject: claims.Subject, Session: claims.Session, ExpiresAt: claims.ExpiresAt.Time, Key: kid}, nil
	case errors.Is(err, jwt.ErrTokenExpired) && !isForeign(err):
		return Claims{}, ErrExpired
	}

	return Claims{}, ErrInvalid
}

// isForeign reports whether an expired token was not issued by this hub.
func isForeign(err error) bool {
	for _, kind := range []error{
		jwt.ErrTokenInvalidIssuer, jwt.ErrTokenInvalidAudience, jwt.ErrTokenNotValidYet, jwt.ErrTokenUsedBeforeIssued,
		jwt.ErrTokenRequiredClaimMissing,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}

	return false
}

// Random returns a token of 256 random bits, such as a refresh token, and the hash that is stored.
func Random(prefix string) (string, []byte) {
	var b [32]byte
	rand.Read(b[:])
	raw := prefix + hex.EncodeToString(b[:])
	return raw, Hash(raw)
}

// Hash returns the form in which a token of [Random] is stored. It needs no salt and no stretching:
// the token has 256 bits.
func Hash(raw string) []byte {
	h := sha256.Sum256([]byte(raw))
	return h[:]
}

// JWK is a public key (RFC 8037, section 2).
type JWK struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
}

// JWKS is a set of public keys (RFC 7517, section 5).
type JWKS struct {
	Keys []JWK `json:"keys"`
}

// Public returns the keys that verify access tokens that have not expired.
func (k *Keys) Public(ctx context.Context) (JWKS, error) {
	if err := k.reload(ctx); err != nil {
		return JWKS{}, err
	}

	set := JWKS{Keys: []JWK{}}
	for _, key := range k.published() {
		set.Keys = append(set.Keys, JWK{
			Type: "OKP", Curve: "Ed25519", ID: key.id, Use: "sig", Algorithm: "EdDSA", X: base64.RawURLEncoding.EncodeToString(key.public),
		})
	}

	return set, nil
}

// Routes returns the route of the public keys.
func (k *Keys) Routes() []api.Route {
	return []api.Route{{
		Method: http.MethodGet, Path: "/.well-known/jwks.json", Access: api.Open,
		Handle: api.Result(http.StatusOK, func(r *http.Request) (JWKS, error) { return k.Public(r.Context()) }),
	}}
}
