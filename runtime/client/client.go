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
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// Config of a [Client].
type Config struct {
	// BaseURL is what stands before /v1 and /health. Required.
	BaseURL string
	// APIKey is sent as x-api-key.
	APIKey string
	// HTTPClient defaults to one without a time limit, as a stream needs it: bound calls by
	// their context.
	HTTPClient *http.Client
}

// Client of one runtime. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New makes a client. It connects to nothing yet.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("make runtime client: base URL %q is not of the form http://host:port", cfg.BaseURL)
	}
	c := &Client{base: strings.TrimSuffix(cfg.BaseURL, "/"), key: cfg.APIKey, http: cfg.HTTPClient}
	if c.http == nil {
		c.http = &http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, DisableCompression: true,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		}}
	}
	return c, nil
}

// Error is an answer of the runtime that tells an error.
type Error struct {
	Status     int
	Body       wire.ErrorBody
	RetryAfter time.Duration // what the runtime asked to wait, 0 where it did not
}

func (e *Error) Error() string {
	text := fmt.Sprintf("runtime answered %d", e.Status)
	if e.Body.Error != "" {
		text += ": " + e.Body.Error
	}
	if e.Body.Reason != "" {
		text += " (" + e.Body.Reason + ")"
	}
	return text
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
	return call[wire.AgentDetail](ctx, c, http.MethodGet, "/v1/agents/"+url.PathEscape(id), nil)
}

// Cancel asks a run to end. Of a run that has completed or failed already it returns the state,
// and an [*Error] with status 409.
func (c *Client) Cancel(ctx context.Context, runID string) (wire.CancelAnswer, error) {
	return call[wire.CancelAnswer](ctx, c, http.MethodPost, "/v1/runs/"+url.PathEscape(runID)+"/cancel", nil)
}

// Complete runs an agent and waits for its answer. A run that failed gives the answer with what
// there is of it, and an [*Error] with status 429 or 502; a cancelled one is no error.
func (c *Client) Complete(ctx context.Context, agentID string, req wire.RunRequest) (wire.RunAnswer, error) {
	req.Stream = wire.StreamOff
	return call[wire.RunAnswer](ctx, c, http.MethodPost, runsPath(agentID), req)
}

func runsPath(agentID string) string { return "/v1/agents/" + url.PathEscape(agentID) + "/runs" }

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
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return result, fmt.Errorf("read answer of runtime: %w", err)
	}
	if res.StatusCode >= 300 {
		_ = json.Unmarshal(data, &result) // often another shape, and then empty
		return result, failure(res, data)
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return result, fmt.Errorf("read answer of runtime: %w", err)
	}
	return result, nil
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
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return nil, fmt.Errorf("call runtime: %w", err)
	}
	return res, nil
}

// failure makes the error of an answer.
func failure(res *http.Response, data []byte) *Error {
	e := &Error{Status: res.StatusCode}
	_ = json.Unmarshal(data, &e.Body) // a proxy in between may answer anything
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
