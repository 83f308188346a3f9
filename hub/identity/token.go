package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	audience  = "agenthost"
	tokenType = "at+jwt" // RFC 9068, section 2.1
	tokenSkew = 5 * time.Second
	maxToken  = 4096 // bytes; those of the hub have about 700
)

// accessClaims are the claims of an access token. Name and role are hints for a client: the hub
// uses those of the member table.
type accessClaims struct {
	jwt.RegisteredClaims

	Session  string    `json:"sid"`
	TenantID string    `json:"tenant_id"`
	OrgID    string    `json:"org_id"`
	Name     string    `json:"name"`
	Role     rbac.Role `json:"role"`

	key string // id of the key that signed
}

// Errors of verify.
var (
	errTokenInvalid = errors.New("access token is not one of this hub")
	errTokenExpired = errors.New("access token has expired")
)

func (k *keyStore) sign(m member, session string, now, expires time.Time) (string, error) {
	key := k.signer()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, accessClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: k.issuer, Audience: jwt.ClaimStrings{audience}, Subject: m.ID, ID: ids.Random().String(),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
		},
		Session: session, TenantID: m.TenantID, OrgID: m.TenantID, Name: m.DisplayName, Role: m.Role,
	})
	token.Header["typ"], token.Header["kid"] = tokenType, key.id
	signed, err := token.SignedString(key.private)
	if err != nil {
		return "", fmt.Errorf("sign access token: %w", err)
	}
	return signed, nil
}

// verify returns the claims of an access token of this hub. The error is errTokenInvalid,
// errTokenExpired, or that of the database if the key could not be searched.
func (k *keyStore) verify(ctx context.Context, raw string) (accessClaims, error) {
	if len(raw) > maxToken {
		return accessClaims{}, errTokenInvalid
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(k.issuer), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(tokenSkew), jwt.WithTimeFunc(k.store.Now),
	)
	var claims accessClaims
	var unknown error
	_, err := parser.ParseWithClaims(raw, &claims, func(t *jwt.Token) (any, error) {
		kid, ok := t.Header["kid"].(string)
		// A header of the hub has only alg, typ and kid. Other fields (jwk, jku, x5c, crit) would
		// name a key or a rule of the sender.
		if !ok || len(t.Header) != 3 || t.Header["typ"] != tokenType {
			return nil, errTokenInvalid
		}
		public, err := k.public(ctx, kid)
		if err != nil {
			unknown = err
			return nil, err
		}
		if public == nil {
			return nil, errTokenInvalid
		}
		claims.key = kid
		return public, nil
	})
	switch {
	case unknown != nil:
		return accessClaims{}, unknown
	case err == nil:
		return claims, nil
	case errors.Is(err, jwt.ErrTokenExpired) && !wrongBeside(err):
		return accessClaims{}, errTokenExpired
	}
	return accessClaims{}, errTokenInvalid
}

// wrongBeside reports whether an expired token was not issued by this hub.
func wrongBeside(err error) bool {
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

// newToken returns a token of 256 random bits, and the hash that is stored.
func newToken(prefix string) (raw string, hash []byte) {
	var b [32]byte
	rand.Read(b[:])
	raw = prefix + hex.EncodeToString(b[:])
	return raw, hashToken(raw)
}

// hashToken returns the form in which a token is stored. It needs no salt and no stretching: a
// token has 256 bits.
func hashToken(raw string) []byte {
	h := sha256.Sum256([]byte(raw))
	return h[:]
}
