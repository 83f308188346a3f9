package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

const (
	jsonMedia = "application/json"
	// maxBody is the largest accepted JSON response, in bytes.
	maxBody = 64 << 20
	// maxError is the largest part of an error response that is read.
	maxError = 1 << 20
	// pageSize is the number of items that are requested at once, the largest that the hub returns.
	pageSize = 100
	// attempts is the number of times that a request with GET, or an answer, is sent.
	attempts = 3
	// firstPause is the time before the second attempt. The next one is four times as long.
	firstPause = 200 * time.Millisecond
	// maxPause is the longest time that a hub can request before the next attempt.
	maxPause = 5 * time.Second
)

// complexity bounds the values of a response and of an event.
var complexity = jsonlimit.Limit{Values: 1 << 20}

// request is a request that can be sent again.
type request struct {
	method string
	path   string // with an escaped query
	accept string
	media  string           // of the body
	body   func() io.Reader // nil without a body
	length int64
	header http.Header
	open   bool // sent without a token
	again  bool // is sent again after a lost connection, as one with GET
}

func jsonRequest(method, path string, body any) (request, error) {
	r := request{method: method, path: path, accept: jsonMedia, header: http.Header{}}
	if body == nil {
		return r, nil
	}

	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // a conversation about HTML would become several times as long
	if err := encoder.Encode(body); err != nil {
		return r, fmt.Errorf("encode request: %w", err)
	}

	r.media, r.length = jsonMedia, int64(data.Len())
	r.body = func() io.Reader { return bytes.NewReader(data.Bytes()) }
	return r, nil
}

// openRequest returns a request for an object that is public: expired credentials do not fail it.
func openRequest(path string) request {
	return request{method: http.MethodGet, path: path, accept: jsonMedia, header: http.Header{}, open: true}
}

// get requests and decodes an object.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return send[T](ctx, c, http.MethodGet, withQuery(path, query), nil)
}

// send sends a request with a JSON body, unless it is nil, and decodes the response.
func send[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	r, err := jsonRequest(method, path, body)
	if err != nil {
		var result T
		return result, err
	}

	return decode[T](ctx, c, r)
}

// done sends a request whose response has no body.
func done(ctx context.Context, c *Client, method, path string, body any) error {
	r, err := jsonRequest(method, path, body)
	if err != nil {
		return err
	}

	res, err := c.do(ctx, r)
	if err != nil {
		return err
	}

	return res.Body.Close()
}

// decode sends a request and decodes the JSON response.
func decode[T any](ctx context.Context, c *Client, r request) (T, error) {
	data, err := c.read(ctx, r, jsonMedia)
	if err != nil {
		var result T
		return result, err
	}

	if err := complexity.Check(data); err != nil {
		var result T
		return result, fmt.Errorf("read response of hub: %w", err)
	}

	var result T
	if err := jsonlimit.Unmarshal(data, &result); err != nil {
		return result, fmt.Errorf("read response of hub: %w", err)
	}

	return result, nil
}

// read sends a request and returns the body of the response, which must have that media type.
func (c *Client) read(ctx context.Context, r request, media string) ([]byte, error) {
	res, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := expect(res, media); err != nil {
		return nil, err
	}

	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = fmt.Errorf("the body is longer than %d bytes", maxBody)
	}

	if err != nil {
		return nil, fmt.Errorf("read response of hub: %w", err)
	}

	return data, nil
}

func (c *Client) text(ctx context.Context, path string, query url.Values, media string) ([]byte, error) {
	return c.read(ctx, request{method: http.MethodGet, path: withQuery(path, query), accept: media}, media)
}

// page is a page of a list, whose elements are an L.
type page[L any] struct {
	Items      L      `json:"items"`
	Total      int    `json:"total"`
	Next       string `json:"next"`       // the cursor of the next page
	SnapshotID string `json:"snapshotId"` // of the audit log: it is the same for all pages
}

// list requests pages until one is not full. An element that cannot be decoded hides no other.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := cloned(query)
		query.Set("page_size", strconv.Itoa(pageSize))
		for number := 1; ; number++ {
			if number > 1 && query.Get("cursor") == "" {
				query.Set("page", strconv.Itoa(number))
			}

			p, err := get[page[jsonlimit.List[T]]](ctx, c, path, query)
			if err != nil {
				var none T
				yield(none, err)
				return
			}

			for _, item := range p.Items.Items {
				if !yield(item, nil) {
					return
				}
			}

			c.omit(path, p.Items.Omitted)
			n := len(p.Items.Items) + len(p.Items.Omitted)
			if p.Next == "" && (n < pageSize || number*pageSize >= p.Total) || n == 0 {
				return
			}

			if p.Next != "" {
				query.Del("page")
				query.Set("cursor", p.Next)
			}

			if p.SnapshotID != "" {
				query.Set("snapshotId", p.SnapshotID)
			}
		}
	}
}

// omit reports the elements of a list that cannot be decoded.
func (c *Client) omit(path string, faults []error) {
	if c.cfg.Omitted == nil {
		return
	}

	for _, fault := range faults {
		c.cfg.Omitted(fmt.Errorf("read %s: an element has another form: %w", path, fault))
	}
}

func cloned(query url.Values) url.Values {
	clone := url.Values{}
	for name, values := range query {
		clone[name] = values
	}

	return clone
}

// withQuery appends a query without its empty values.
func withQuery(path string, query url.Values) string {
	query = cloned(query)
	for name, values := range query {
		if len(values) == 0 || values[0] == "" {
			delete(query, name)
		}
	}

	if len(query) == 0 {
		return path
	}

	return path + "?" + query.Encode()
}

// segment returns a name as one segment of a path. The segments "", "." and ".." would change the
// path, so segment adds a space to them. No name has a space, so the response has status 404.
func segment(name string) string {
	switch name {
	case "", ".", "..":
		return "%20" + name
	}

	return url.PathEscape(name)
}

// do sends a request, with renewed credentials if they have expired, and returns a response with
// status 2xx. The caller closes its body.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		res, err := c.authorized(ctx, r)
		if err == nil || r.method != http.MethodGet && (!r.again || !disconnected(err)) || attempt == attempts || ctx.Err() != nil {
			return res, err
		}

		wait := pause
		if e, ok := errors.AsType[*wire.Error](err); ok {
			if !temporary(e) || e.RetryAfter > maxPause {
				return nil, err
			}

			wait = max(wait, e.RetryAfter)
		}

		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}

		pause *= 4
	}
}

// authorized sends a request with a token that is valid.
func (c *Client) authorized(ctx context.Context, r request) (*http.Response, error) {
	if c.cfg.OpsKey != "" && strings.HasPrefix(r.path, tenantsPath) {
		r.header.Set("X-Ops-Key", c.cfg.OpsKey)
		r.open = true
	}

	if r.open {
		return c.once(ctx, r, "")
	}

	credentials, err := c.current(ctx)
	if err != nil {
		return nil, err
	}

	res, err := c.once(ctx, r, credentials.AccessToken)
	if errors.Is(err, wire.TokenExpired) && credentials.RefreshToken != "" { // the clocks differ
		if credentials, err = c.renew(ctx, credentials); err != nil {
			return nil, err
		}

		return c.once(ctx, r, credentials.AccessToken)
	}

	return res, err
}

// once sends a request once.
func (c *Client) once(ctx context.Context, r request, token string) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		body = r.body()
	}

	address := r.path
	if strings.HasPrefix(address, "/") {
		address = c.base + address
	}

	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("create request: %w", err)
	}

	for name, values := range r.header {
		req.Header[name] = values
	}

	if r.body != nil {
		req.ContentLength = r.length
		req.Header.Set("Content-Type", r.media)
	}

	req.Header.Set("Accept", r.accept)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}

	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}

	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call hub: %w", err)
	}

	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}

	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxError))
	if err != nil {
		return nil, fmt.Errorf("read response of hub: %w", err)
	}

	return nil, failure(res, data)
}

// expect checks the media type: a proxy may respond with status 200 and its own page.
func expect(res *http.Response, want string) error {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || media != want {
		return fmt.Errorf("read response of hub: its type is %q, not %s", res.Header.Get("Content-Type"), want)
	}

	return nil
}
