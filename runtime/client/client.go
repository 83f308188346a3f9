// Package client is a client of the runtime API. It runs agents, with a sequence of events or one
// response, cancels runs, sends uploads, reads and deletes sessions, and lists agents.
//
//	c, err := client.New(client.Config{BaseURL: "http://127.0.0.1:3000"})
//	for event, err := range c.Run(ctx, "helper", wire.RunRequest{Message: "hello"}) {
//		if err != nil { ... }
//		if p, ok := event.Payload.(*wire.PartialMessage); ok {
//			fmt.Print(p.Partial.Text)
//		}
//	}
//
// A runtime is not trusted: an event has at most about 4 MiB, the JSON response of a run 64 MiB,
// and any other one 1 MiB. Each has at most 262,144 values. The name of an event consists of 1 to
// 64 of a-z, "_" and ".", and its id has at most 128 bytes. The context of a call bounds its time.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Config configures a [Client].
type Config struct {
	// BaseURL is the URL of the runtime, without /v1. Required.
	BaseURL string
	// APIKey is sent as x-api-key if it is not empty.
	APIKey string
	// HTTPClient defaults to a client without a timeout, because streams may be long: limit calls
	// by their context. Without its own CheckRedirect it does not follow redirects, because the
	// key would be sent to the other address.
	HTTPClient *http.Client
	// Reserve is called before an event stream uses more memory, with the number of additional
	// bytes, and after it has released memory, with a negative number. An error ends the stream.
	// Concurrent streams call it concurrently. Defaults to no limit for all streams together.
	Reserve func(bytes int) error
}

// Client calls one runtime. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http http.Client

	reserve func(bytes int) error
}

// New returns a client. It does not connect.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, errors.New("create runtime client: the base URL is not of the form http://host:port")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("create runtime client: the base URL has a query or a fragment")
	}

	c := &Client{base: strings.TrimRight(cfg.BaseURL, "/"), key: cfg.APIKey, reserve: cfg.Reserve}
	if c.reserve == nil {
		c.reserve = func(int) error { return nil }
	}

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

// Health returns the health of the runtime.
func (c *Client) Health(ctx context.Context) (wire.Health, error) {
	return call[wire.Health](ctx, c, http.MethodGet, "/health", nil, maxBody)
}

// Ready returns an error if the runtime does not accept runs.
func (c *Client) Ready(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, http.MethodGet, "/health/ready", nil, maxBody)
	return err
}

// Agents returns the agents in the order of the configuration.
func (c *Client) Agents(ctx context.Context) ([]wire.AgentSummary, error) {
	return call[[]wire.AgentSummary](ctx, c, http.MethodGet, "/v1/agents", nil, maxBody)
}

// Agent returns the details of one agent.
func (c *Client) Agent(ctx context.Context, id string) (wire.AgentDetail, error) {
	return call[wire.AgentDetail](ctx, c, http.MethodGet, "/v1/agents/"+segment(id), nil, maxBody)
}

// Cancel cancels a run. For a completed or failed run it returns the state and an [*Error] with
// status 409.
func (c *Client) Cancel(ctx context.Context, runID string) (wire.CancelResponse, error) {
	return call[wire.CancelResponse](ctx, c, http.MethodPost, "/v1/runs/"+segment(runID)+"/cancel", nil, maxBody)
}

// Upload sends an image or a file for the content of a run. The media type may be empty.
func (c *Client) Upload(ctx context.Context, name, mediaType string, data []byte) (wire.Upload, error) {
	return call[wire.Upload](ctx, c, http.MethodPost, "/v1/uploads?name="+url.QueryEscape(name), binary{mediaType, data}, maxBody)
}

// binary is a body that is not JSON.
type binary struct {
	mediaType string
	data      []byte
}

// DeleteSession deletes the stored conversation of a session. An unknown id is not an error. If a
// run has the session open, the error is an [*Error] with status 409.
func (c *Client) DeleteSession(ctx context.Context, sessionID string) error {
	res, err := c.send(ctx, http.MethodDelete, "/v1/sessions/"+segment(sessionID), "application/json", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxRest))
	switch {
	case err != nil:
		return fmt.Errorf("read response of runtime: %w", err)
	case res.StatusCode != http.StatusNoContent:
		return failure(res, data)
	}

	return nil
}

// Transcript returns what happened in a session, of whichever agent: at most limit entries after a
// seq, 100 if limit is 0. If the id is unknown, the error is an [*Error] with status 404.
func (c *Client) Transcript(ctx context.Context, sessionID string, after int64, limit int) (wire.Transcript, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}

	return call[wire.Transcript](ctx, c, http.MethodGet, "/v1/sessions/"+segment(sessionID)+"?"+query.Encode(), nil, maxRun)
}

// Complete runs an agent and waits for its response. For a failed run it returns the response,
// which may have a partial text, and an [*Error] with status 429 or 502. A cancelled run is not an
// error. To cancel the run from another goroutine, set RunID.
func (c *Client) Complete(ctx context.Context, agentID string, req wire.RunRequest) (wire.RunResponse, error) {
	req.Stream = wire.StreamOff
	return call[wire.RunResponse](ctx, c, http.MethodPost, runsPath(agentID), req, maxRun)
}

func runsPath(agentID string) string { return "/v1/agents/" + segment(agentID) + "/runs" }

// segment returns an id as one segment of a path. The segments "", "." and ".." would change the
// path, so segment adds a space to them. No id contains a space, so the response has status 404.
func segment(id string) string {
	switch id {
	case "", ".", "..":
		return "%20" + id
	}

	return url.PathEscape(id)
}

// The largest accepted JSON response of a run, and any other one, in bytes.
const (
	maxRun  = 64 << 20
	maxBody = 1 << 20
)

// maxAttempts bounds the connections that were used before, on which one request is sent.
const maxAttempts = 4

// complexity bounds the values of a response and of an event.
var complexity = jsonlimit.Limit{Values: 1 << 18}

// call sends a request and decodes the JSON response, which has at most limit bytes. It also
// decodes error responses into the result: failed runs and rejected cancels have more than a
// status.
func call[T any](ctx context.Context, c *Client, method, path string, body any, limit int64) (T, error) {
	var result T
	res, err := c.send(ctx, method, path, "application/json", body)
	if err != nil {
		return result, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the body is longer than %d bytes", limit)
	}

	if err != nil {
		return result, fmt.Errorf("read response of runtime: %w", err)
	}

	if err := complexity.Check(data); err != nil {
		return result, fmt.Errorf("read response of runtime: %w", err)
	}

	if res.StatusCode >= 300 {
		_ = jsonlimit.Unmarshal(data, &result) // empty if the body has another shape
		return result, failure(res, data)
	}

	if err := expect(res, "application/json"); err != nil {
		return result, err
	}

	if err := jsonlimit.Unmarshal(data, &result); err != nil {
		return result, fmt.Errorf("read response of runtime: %w", err)
	}

	return result, nil
}

// expect checks the media type: a proxy may respond with status 200 and its own page.
func expect(res *http.Response, want string) error {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || media != want {
		return fmt.Errorf("read response of runtime: its type is %q, not %s", res.Header.Get("Content-Type"), want)
	}

	return nil
}

// send sends a request. The caller closes the body of the response.
func (c *Client) send(ctx context.Context, method, path, accept string, body any) (*http.Response, error) {
	return c.sendOn(ctx, new(net.Conn), method, path, accept, body)
}

// sendOn is send, which sets conn to the connection.
func (c *Client) sendOn(ctx context.Context, conn *net.Conn, method, path, accept string, body any) (*http.Response, error) {
	var data bytes.Buffer
	media := "application/json"
	switch body := body.(type) {
	case nil:
		media = ""
	case binary:
		media = body.mediaType
		data = *bytes.NewBuffer(body.data)
	default:
		encoder := json.NewEncoder(&data)
		encoder.SetEscapeHTML(false) // a conversation about HTML would become several times as long
		if err := encoder.Encode(body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}

	run, isRun := body.(wire.RunRequest)
	again := !isRun || run.RunID != nil // a runtime accepts a run with an id once
	var lost error                      // of the first attempt, which the runtime may have accepted
	for attempt := 1; ; attempt++ {
		reused := false
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { *conn, reused = info.Conn, info.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, c.base+path, bytes.NewReader(data.Bytes()))
		if err != nil {
			return nil, fmt.Errorf("create request: %w", err)
		}

		req.Header.Set("Accept", accept)
		if media != "" {
			req.Header.Set("Content-Type", media)
		}

		if c.key != "" {
			req.Header.Set("X-Api-Key", c.key)
		}

		res, err := c.http.Do(req)
		if err == nil {
			return res, nil
		}

		if ctx.Err() != nil {
			return nil, fmt.Errorf("call runtime: %w", err) // err is the cause of ctx
		}

		lost = cmp.Or(lost, err)
		// The runtime may have closed an unused connection in this moment.
		if !again || !reused || attempt == maxAttempts {
			return nil, fmt.Errorf("call runtime: %w", lost)
		}
	}
}

// maxText bounds the text of an error, in bytes: a runtime is not trusted.
const maxText = 1 << 10

// Error is an error response of the runtime.
type Error struct {
	Status     int
	Body       wire.ErrorBody // empty if a proxy responded
	RetryAfter time.Duration  // 0 if the response has no Retry-After
}

// Kinds of an [Error], for errors.Is.
var (
	ErrRunIDConflict  = errors.New("the id of the run is in use")
	ErrSessionBusy    = errors.New("another run uses the session")
	ErrUnknownSession = errors.New("the runtime does not have the session")
)

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool {
	if e.Status != http.StatusConflict {
		return false
	}

	switch target {
	case ErrRunIDConflict:
		return e.Body.Error == runvalue.RunIDConflict
	case ErrSessionBusy:
		return e.Body.Error == runvalue.SessionBusy
	case ErrUnknownSession:
		return e.Body.Error == runvalue.UnknownSession
	}

	return false
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runtime responded with %d", e.Status)
	switch {
	case e.Body.Error != "":
		b.WriteString(": " + e.Body.Error)
	case http.StatusText(e.Status) != "":
		b.WriteString(" " + http.StatusText(e.Status))
	}

	if e.Body.Reason != "" {
		b.WriteString(" (" + e.Body.Reason + ")")
	}

	if e.Body.RequestID != "" {
		b.WriteString(" (request " + e.Body.RequestID + ")")
	}

	return excerpt.Head(b.String(), maxText)
}

// failure returns the error of a response.
func failure(res *http.Response, data []byte) *Error {
	e := &Error{Status: res.StatusCode, RetryAfter: outbound.RetryAfter(res.Header)}
	if complexity.Check(data) == nil {
		_ = jsonlimit.Unmarshal(data, &e.Body) // a proxy may send any body
	}

	return e
}
