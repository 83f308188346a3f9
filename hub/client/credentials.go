package client

import (
	"context"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Credentials are the tokens of a sign-in. A refresh token can be used once.
type Credentials struct {
	AccessToken  string    `json:"accessToken"`
	RefreshToken string    `json:"refreshToken,omitempty"`
	ExpiresAt    time.Time `json:"expiresAt,omitzero"` // of the access token

	// DeviceToken is sent with the next login, which failures of others then do not lock out. It
	// permits nothing else.
	DeviceToken string `json:"deviceToken,omitempty"`
}

// early is the time before its end at which an access token is replaced.
const early = 10 * time.Second

// Credentials returns the current tokens, to store them.
func (c *Client) Credentials() Credentials {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.credentials
}

// SetCredentials replaces the tokens of the following requests.
func (c *Client) SetCredentials(credentials Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credentials = credentials
}

// current returns credentials that are valid.
func (c *Client) current(ctx context.Context) (Credentials, error) {
	credentials := c.Credentials()
	if credentials.RefreshToken == "" || credentials.ExpiresAt.IsZero() || time.Until(credentials.ExpiresAt) > early {
		return credentials, nil
	}

	return c.renew(ctx, credentials)
}

// renew replaces expired credentials once for all concurrent requests.
func (c *Client) renew(ctx context.Context, old Credentials) (Credentials, error) {
	select {
	case c.renewing <- struct{}{}:
	case <-ctx.Done():
		return old, context.Cause(ctx)
	}

	defer func() { <-c.renewing }()
	if now := c.Credentials(); now.AccessToken != old.AccessToken {
		return now, nil
	}

	renewed, err := c.cfg.Renew(ctx, old, c.refresh)
	if err != nil {
		return old, err
	}

	c.SetCredentials(renewed)
	return renewed, nil
}

// refresh exchanges the refresh token for new credentials.
func (c *Client) refresh(ctx context.Context, old Credentials) (Credentials, error) {
	r, err := jsonRequest(http.MethodPost, "/auth/refresh", bodies.RefreshRequest{RefreshToken: old.RefreshToken})
	if err != nil {
		return old, err
	}

	r.open = true
	login, err := decode[wire.Login](ctx, c, r)
	if err != nil {
		return old, err
	}

	return credentialsOf(login), nil
}

func credentialsOf(l wire.Login) Credentials {
	return Credentials{
		AccessToken: l.AccessToken, RefreshToken: l.RefreshToken, DeviceToken: l.DeviceToken,
		ExpiresAt: time.Now().Add(time.Duration(l.ExpiresIn) * time.Second),
	}
}
