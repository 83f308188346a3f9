// Package client speaks to a runtime over HTTP: it runs agents as a sequence of events or for one
// answer, cancels runs, and lists what there is.
//
//	c, err := client.New(client.Config{BaseURL: "http://127.0.0.1:3000"})
//	for event, err := range c.Run(ctx, "helper", wire.RunRequest{Message: "hello"}) {
//		if err != nil { ... }
//		if p, ok := event.Payload.(*wire.PartialMessage); ok {
//			fmt.Print(p.Partial.Text)
//		}
//	}
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Config of a [Client].
type Config struct {
	// BaseURL is what stands before /v1 and /health. Required.
	BaseURL string
	// APIKey is sent as x-api-key, unless it is empty.
	APIKey string
	// HTTPClient defaults to one without a time limit, as a stream needs it: bound calls by
	// their context. Where it says nothing of redirects none is followed, because the key
	// would go along.
	HTTPClient *http.Client
}

// Client of one runtime. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http http.Client
}

// New makes a client. It connects to nothing yet.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, errors.New("make runtime client: the base URL is not of the form http://host:port")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("make runtime client: the base URL has a query or a fragment")
	}
	c := &Client{base: strings.TrimRight(cfg.BaseURL, "/"), key: cfg.APIKey}
	if cfg.HTTPClient != nil {
		c.http = *cfg.HTTPClient
	} else {
		c.http.Transport = outbound.Transport()
	}
	if c.http.CheckRedirect == nil {
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return c, nil
}

// Health asks whether the runtime is alive.
func (c *Client) Health(ctx context.Context) (wire.Health, error) {
	return call[wire.Health](ctx, c, http.MethodGet, "/health", nil)
}

// Agents lists the agents, in the order of the configuration.
func (c *Client) Agents(ctx context.Context) ([]wire.AgentSummary, error) {
	return call[[]wire.AgentSummary](ctx, c, http.MethodGet, "/v1/agents", nil)
}

// Agent tells all that may be known of one agent.
func (c *Client) Agent(ctx context.Context, id string) (wire.AgentDetail, error) {
	return call[wire.AgentDetail](ctx, c, http.MethodGet, "/v1/agents/"+segment(id), nil)
}

// Cancel asks a run to end. Of a run that has completed or failed already it returns the state,
// and an [*Error] with status 409.
func (c *Client) Cancel(ctx context.Context, runID string) (wire.CancelAnswer, error) {
	return call[wire.CancelAnswer](ctx, c, http.MethodPost, "/v1/runs/"+segment(runID)+"/cancel", nil)
}

// Complete runs an agent and waits for its answer. A run that failed gives the answer with what
// there is of it, and an [*Error] with status 429 or 502; a cancelled one is no error. To cancel
// it from elsewhere, choose the RunID of the request.
func (c *Client) Complete(ctx context.Context, agentID string, req wire.RunRequest) (wire.RunAnswer, error) {
	req.Stream = wire.StreamOff
	return call[wire.RunAnswer](ctx, c, http.MethodPost, runsPath(agentID), req)
}

func runsPath(agentID string) string { return "/v1/agents/" + segment(agentID) + "/runs" }

// segment makes an id one segment of a path. The dots of "." and ".." would be taken for steps,
// and no segment at all for another path: no id has a space, so the answer to one is 404.
func segment(id string) string {
	switch id {
	case "", ".", "..":
		return "%20" + id
	}
	return url.PathEscape(id)
}

// maxBody bounds what is read of an answer that is one JSON.
const maxBody = 64 << 20

// call sends a request and reads a JSON answer. An answer that tells an error is decoded into
// the result as well: a failed run and a cancel that came too late say more than their status.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var result T
	res, err := c.send(ctx, method, path, "application/json", body)
	if err != nil {
		return result, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = fmt.Errorf("it is longer than %d bytes", maxBody)
	}
	if err != nil {
		return result, fmt.Errorf("read answer of runtime: %w", err)
	}
	if res.StatusCode >= 300 {
		_ = json.Unmarshal(data, &result) // often another shape, and then empty
		return result, failure(res, data)
	}
	if err := expect(res, "application/json"); err != nil {
		return result, err
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return result, fmt.Errorf("read answer of runtime: %w", err)
	}
	return result, nil
}

// expect checks what kind of answer it is: what stands between may answer 200 with a page of
// its own.
func expect(res *http.Response, want string) error {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || media != want {
		return fmt.Errorf("read answer of runtime: it is %q, not %s", res.Header.Get("Content-Type"), want)
	}
	return nil
}

// send makes the request. The caller closes the body of the response.
func (c *Client) send(ctx context.Context, method, path, accept string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("X-Api-Key", c.key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call runtime: %w", err) // which is the cause of ctx where that ended
	}
	return res, nil
}
