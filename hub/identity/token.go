package identity

import (
	"context"
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
	maxToken  = 4096 // bytes; ours have about 700
)

// accessClaims is what an access token says. Name and role are hints for a client: the member table decides.
type accessClaims struct {
	jwt.RegisteredClaims

	Session  string    `json:"sid"`
	TenantID string    `json:"tenant_id"`
	OrgID    string    `json:"org_id"`
	Name     string    `json:"name"`
	Role     rbac.Role `json:"role"`
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

// verify reads an access token of this hub. Its errors are the two above and that of a database that did not say whether
// the key is ours.
func (k *keyStore) verify(ctx context.Context, raw string) (accessClaims, error) {
	if len(raw) > maxToken {
		return accessClaims{}, errTokenInvalid
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithIssuer(k.issuer), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(tokenSkew), jwt.WithTimeFunc(k.now),
	)
	var claims accessClaims
	var unknown error
	_, err := parser.ParseWithClaims(raw, &claims, func(t *jwt.Token) (any, error) {
		kid, ok := t.Header["kid"].(string)
		// A header of ours has alg, typ and kid. Whatever else there is (jwk, jku, x5c, crit) would name a key or a rule that
		// is the sender's own.
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

// wrongBeside tells whether a token that has expired was never one of this hub's.
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
