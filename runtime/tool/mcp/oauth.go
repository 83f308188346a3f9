package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	// tokenTime bounds a request for a token.
	tokenTime = 10 * time.Second

	// maxMetadata bounds the metadata of an authorization server, in bytes.
	maxMetadata = 1 << 20
)

// credentials gets tokens by the grant client_credentials. The handler of the SDK requires PKCE,
// which only the authorization code grant has, and has no settings for scope and audience.
type credentials struct {
	oauth   agent.OAuth
	client  *http.Client
	life    context.Context // of the link
	allowed []string        // the origins of requests

	mu       sync.Mutex         // guards the fields below
	endpoint string             // the origin of the token endpoint that the configured issuer names
	source   oauth2.TokenSource // nil without a token
}

var _ auth.OAuthHandler = (*credentials)(nil)

// newCredentials returns the handler of a link. The MCP server chooses the addresses of its
// requests, so only those of its own origin and of the configured issuer are allowed.
func newCredentials(w *web) *credentials {
	c := &credentials{oauth: w.oauth, life: w.life, allowed: []string{w.origin}}
	if issuer, err := url.Parse(w.oauth.Issuer); err == nil && w.oauth.Issuer != "" {
		c.allowed = append(c.allowed, originOf(issuer))
	}

	c.client = &http.Client{
		Transport:     tokenRequests{w.base, c},
		Timeout:       tokenTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// tokenRequests sends requests only to some origins.
type tokenRequests struct {
	base http.RoundTripper
	c    *credentials
}

func (t tokenRequests) RoundTrip(req *http.Request) (*http.Response, error) {
	origin := originOf(req.URL)
	t.c.mu.Lock()
	allowed := slices.Contains(t.c.allowed, origin) || origin == t.c.endpoint
	t.c.mu.Unlock()
	if !allowed {
		closeBody(req)
		return nil, fmt.Errorf("%w or of the issuer of oauth", errOtherOrigin)
	}

	return t.base.RoundTrip(req)
}

// TokenSource implements [auth.OAuthHandler].
func (c *credentials) TokenSource(context.Context) (oauth2.TokenSource, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.source, nil
}

// Authorize gets a token after a response with the status 401 or 403.
func (c *credentials) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	resp.Body.Close()
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return fmt.Errorf("read WWW-Authenticate: %w", err)
	}

	resource, err := c.resource(ctx, req.URL, challenges)
	if err != nil {
		return err
	}

	server, err := c.server(ctx, resource.AuthorizationServers[0])
	if err != nil {
		return err
	}

	config := &clientcredentials.Config{
		ClientID:       c.oauth.ClientID,
		ClientSecret:   string(c.oauth.ClientSecret),
		TokenURL:       server.TokenEndpoint,
		Scopes:         c.scopes(challenges, resource.ScopesSupported),
		AuthStyle:      server.authStyle(),
		EndpointParams: url.Values{"resource": {cmp.Or(resource.Resource, req.URL.String())}},
	}
	if c.oauth.Audience != "" {
		config.EndpointParams.Set("audience", c.oauth.Audience)
	}

	source, err := c.token(config)
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode == http.StatusBadRequest {
		// The protocol requires the parameter, and some authorization servers reject it.
		config.EndpointParams.Del("resource")
		source, err = c.token(config)
	}

	if err != nil {
		return fmt.Errorf("client credentials token request failed: %w", err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.source = source
	return nil
}

// token returns a source that has a token, and gets the next ones until the link ends.
func (c *credentials) token(config *clientcredentials.Config) (oauth2.TokenSource, error) {
	source := config.TokenSource(context.WithValue(c.life, oauth2.HTTPClient, c.client))
	_, err := source.Token()
	return source, err
}

// scopes returns those of the settings, or of the challenge, or of the metadata.
func (c *credentials) scopes(challenges []oauthex.Challenge, supported []string) []string {
	if c.oauth.Scope != "" {
		return strings.Fields(c.oauth.Scope)
	}

	for _, challenge := range challenges {
		if challenge.Scheme == "bearer" && challenge.Params["scope"] != "" {
			return strings.Fields(challenge.Params["scope"])
		}
	}

	return supported
}

// resource returns the metadata of an MCP server (RFC 9728). A server without metadata is its own
// authorization server, as in protocol version 2025-03-26.
func (c *credentials) resource(ctx context.Context, address *url.URL, challenges []oauthex.Challenge) (*oauthex.ProtectedResourceMetadata, error) {
	root := &url.URL{Scheme: address.Scheme, Host: address.Host}
	type place struct{ metadata, resource string }
	var places []place
	for _, challenge := range challenges {
		if named := challenge.Params["resource_metadata"]; named != "" {
			places = append(places, place{named, address.String()})
			break
		}
	}

	well := root.JoinPath(".well-known/oauth-protected-resource")
	places = append(places, place{well.JoinPath(address.Path).String(), address.String()}, place{well.String(), root.String()})
	for _, p := range places {
		found, err := oauthex.GetProtectedResourceMetadata(ctx, p.metadata, p.resource, c.client)
		if err != nil || found == nil {
			continue
		}

		if len(found.AuthorizationServers) == 0 {
			return nil, errors.New("the metadata of the server names no authorization server")
		}

		return found, nil
	}

	return &oauthex.ProtectedResourceMetadata{AuthorizationServers: []string{root.String()}, Resource: address.String()}, nil
}

// tokenServer is the part of the metadata of an authorization server (RFC 8414) that this grant
// needs.
type tokenServer struct {
	Issuer        string   `json:"issuer"`
	TokenEndpoint string   `json:"token_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
}

// authStyle returns how the server is sent the secret.
func (s *tokenServer) authStyle() oauth2.AuthStyle {
	switch {
	case slices.Contains(s.AuthMethods, "client_secret_post"):
		return oauth2.AuthStyleInParams
	case slices.Contains(s.AuthMethods, "client_secret_basic"):
		return oauth2.AuthStyleInHeader
	}

	return oauth2.AuthStyleAutoDetect
}

// server returns the metadata of an authorization server. That of the configured issuer may name a
// token endpoint with another origin, to which requests are allowed then.
func (c *credentials) server(ctx context.Context, issuer string) (*tokenServer, error) {
	configured := c.oauth.Issuer
	u, err := url.Parse(issuer)
	if err != nil || !isPrivate(u) {
		return nil, fmt.Errorf("the authorization server %.200q is not an https address", issuer)
	}

	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	places := []*url.URL{
		root.JoinPath(".well-known/oauth-authorization-server", u.Path),
		root.JoinPath(".well-known/openid-configuration", u.Path),
		u.JoinPath(".well-known/openid-configuration"),
	}
	found := &tokenServer{Issuer: issuer, TokenEndpoint: u.JoinPath("token").String()}
	for _, place := range places {
		read, err := c.metadata(ctx, place.String())
		if err != nil {
			return nil, fmt.Errorf("get metadata of the authorization server: %w", err)
		}

		if read != nil {
			found = read
			break
		}
	}

	if !sameIssuer(found.Issuer, issuer) {
		return nil, fmt.Errorf("the metadata of the authorization server %.200q is that of %.200q", issuer, found.Issuer)
	}

	if configured != "" && !sameIssuer(found.Issuer, configured) {
		return nil, fmt.Errorf("the authorization server %.200q is not the issuer of oauth", found.Issuer)
	}

	endpoint, err := url.Parse(found.TokenEndpoint)
	if err != nil || !isPrivate(endpoint) {
		return nil, errors.New("the token endpoint of the authorization server is not an https address")
	}

	if configured != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endpoint = originOf(endpoint)
	}

	return found, nil
}

// metadata returns the metadata with an address, or nil if there is none.
func (c *credentials) metadata(ctx context.Context, address string) (*tokenServer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Accept", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	switch {
	case resp.StatusCode/100 == 4:
		return nil, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server responded with %s", resp.Status)
	}

	data, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
	if err != nil || len(data) > maxMetadata {
		return nil, cmp.Or(err, errTooLarge)
	}

	var server tokenServer
	return &server, jsonlimit.Unmarshal(data, &server)
}

// sameIssuer compares issuers without the slash at their end.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// isPrivate reports whether requests to an address are encrypted, or stay on this machine.
func isPrivate(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return u.Hostname() != "" && (u.Scheme == "https" || u.Scheme == "http" && local)
}
