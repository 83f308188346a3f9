package external

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// algorithms are the permitted ones: signatures with a public key.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

const (
	maxKeys       = 20 // of a provider; further ones are ignored
	maxCandidates = 5  // keys that a token may be verified with
	minRSABits    = 2048
	maxRSABits    = 8192     // the work of a signature grows with the square
	maxToken      = 64 << 10 // bytes
)

// publicKey is a key that an identity provider signs with.
type publicKey struct {
	id  string
	alg string // "" if the key does not name one
	key crypto.PublicKey
}

// parseCert returns the public key of a certificate or a public key in PEM. The validity of the
// certificate does not matter: the operator decides which key is trusted.
func parseCert(text string) (crypto.PublicKey, error) {
	if len(text) > maxCert {
		return nil, errors.New("is too large")
	}

	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("must be a certificate or a public key in PEM")
	}

	var key crypto.PublicKey
	var err error
	switch block.Type {
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		return nil, errors.New("must be a certificate or a public key in PEM, not a " + block.Type)
	}

	if err != nil {
		return nil, errors.New("must be a certificate or a public key in PEM")
	}

	if len(algorithmsOf(key)) == 0 {
		return nil, errors.New("must have an RSA key of 2048 to 8192 bits, an ECDSA key or an Ed25519 key")
	}

	return key, nil
}

// algorithmsOf returns the algorithms of a key, none for one that is not permitted.
func algorithmsOf(key crypto.PublicKey) []string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= minRSABits && bits <= maxRSABits {
			return algorithms[:6]
		}
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return []string{"ES256"}
		case elliptic.P384():
			return []string{"ES384"}
		case elliptic.P521():
			return []string{"ES512"}
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}

	return nil
}

// keysOf returns the published keys of a provider, which are at most life old, and how often they
// were read.
func (s *Service) keysOf(ctx context.Context, p *idp, url string, life time.Duration) ([]publicKey, int, error) {
	return p.keys.get(ctx, s, life, func(ctx context.Context) ([]publicKey, error) {
		keys, err := s.fetchKeys(ctx, url)
		if err != nil {
			return nil, unavailable(fmt.Errorf("read keys of %s: %w", p.issuer, err))
		}

		return keys, nil
	})
}

func (s *Service) fetchKeys(ctx context.Context, url string) ([]publicKey, error) {
	body, err := s.getJSON(ctx, url, "")
	if err != nil {
		return nil, err
	}

	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := jsonlimit.Unmarshal(body, &set); err != nil {
		return nil, err
	}

	var keys []publicKey
	for _, raw := range set.Keys {
		if len(keys) == maxKeys {
			break
		}

		var k jose.JSONWebKey
		if jsonlimit.Unmarshal(raw, &k) != nil || k.Use != "" && k.Use != "sig" || len(algorithmsOf(k.Key)) == 0 {
			continue // of another type or for another use
		}

		if k.KeyID != "" && slices.ContainsFunc(keys, func(known publicKey) bool { return known.id == k.KeyID }) {
			continue // the first key of an id counts
		}

		keys = append(keys, publicKey{k.KeyID, k.Algorithm, k.Key})
	}

	if len(keys) == 0 {
		return nil, errors.New("there is no usable key")
	}

	return keys, nil
}

// getJSON returns the body of a response with status 200.
func (s *Service) getJSON(ctx context.Context, url, token string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}

	res, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}

	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the response has status %d", res.StatusCode)
	}

	return io.ReadAll(res.Body)
}

var (
	// errSignature means that no key of the provider made the signature of a token.
	errSignature = errors.New("the signature is not that of the identity provider")

	// errNotSigned means that no key at all could have made it.
	errNotSigned = errors.New("the token has no signature with a permitted algorithm")
)

// candidates returns the keys that may have made a signature: the one with the id that it names,
// and those that one of the two does not name.
func candidates(header jose.Header, keys []publicKey) []publicKey {
	var named, unnamed []publicKey
	for _, k := range keys {
		switch {
		case k.alg != "" && k.alg != header.Algorithm || !slices.Contains(algorithmsOf(k.key), header.Algorithm):
		case k.id != "" && k.id == header.KeyID:
			named = append(named, k)
		case k.id == "" || header.KeyID == "":
			unnamed = append(unnamed, k)
		}
	}

	all := append(named, unnamed...)
	return all[:min(len(all), maxCandidates)]
}

// parseToken returns a token that names one of the algorithms. Its signature is not verified.
func parseToken(raw string, algs []string) (*jose.JSONWebSignature, error) {
	permitted := make([]jose.SignatureAlgorithm, len(algs))
	for i, alg := range algs {
		permitted[i] = jose.SignatureAlgorithm(alg)
	}

	if len(raw) > maxToken {
		return nil, errNotSigned
	}

	jws, err := jose.ParseSignedCompact(raw, permitted)
	if err != nil {
		return nil, errNotSigned
	}

	return jws, nil
}

// checkSignature returns the header and the payload of a token that one of the keys has signed.
func (s *Service) checkSignature(raw string, algs []string, keys []publicKey) (jose.Header, []byte, error) {
	jws, err := parseToken(raw, algs)
	if err != nil {
		return jose.Header{}, nil, err
	}

	header := jws.Signatures[0].Protected
	for _, k := range candidates(header, keys) {
		s.checks.Add(1)
		if payload, err := jws.Verify(k.key); err == nil {
			return header, payload, nil
		}
	}

	return header, nil, errSignature
}
