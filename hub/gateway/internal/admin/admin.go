// Package admin calls the admin interfaces of gateways. A gateway is not trusted: each response is
// bounded in bytes, the caller bounds the time, and redirects are errors, because the key would
// follow them.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// maxResponse bounds a response: a page of 1,000 entities of Kong has about 1 MiB.
const maxResponse = 8 << 20

// MaxPages bounds the pages of a list.
const MaxPages = 200

// ErrTooMany reports that a list does not end.
var ErrTooMany = fmt.Errorf("the gateway lists more than %d pages", MaxPages)

// Client calls one admin interface.
type Client struct {
	base   string
	header string
	key    string
	http   *http.Client
}

// New returns a client. The key is sent in the header, unless it is empty.
func New(base, header, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the admin URL is not a base URL: use http:// or https://, a host, and no user or query")
	}

	return &Client{
		base: strings.TrimRight(base, "/"), header: header, key: key,
		http: &http.Client{
			Transport:     outbound.Limit(outbound.Transport(), maxResponse),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Do sends a request with the JSON of in, unless in is nil, and decodes the response into out,
// unless out is nil. It reports whether the entity was found. Bodies of errors and addresses are
// not part of the text of the error: a condition displays it.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) (bool, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return false, fmt.Errorf("encode request of the gateway: %w", err)
		}

		body = bytes.NewReader(text)
	}

	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return false, fmt.Errorf("call the gateway: %w", err)
	}

	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	if c.key != "" {
		req.Header.Set(c.header, c.key)
	}

	res, err := c.http.Do(req)
	if err != nil {
		return false, failed(ctx, "the admin interface of the gateway cannot be reached", err)
	}

	defer func() { _ = res.Body.Close() }() // it was read
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return false, failed(ctx, "the response of the gateway cannot be read", err)
	case res.StatusCode == http.StatusNotFound:
		return false, nil
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return false, fmt.Errorf("the gateway rejected the admin key with status %d", res.StatusCode)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return false, &StatusError{Method: method, Path: path, Status: res.StatusCode}
	case out == nil:
		return true, nil
	}

	if err := jsonlimit.Unmarshal(text, out); err != nil {
		return false, errors.New("the gateway responded with JSON of another form")
	}

	return true, nil
}

// callError is a failure without a response. Its text has no address, which its cause has.
type callError struct {
	text  string
	cause error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() error { return e.cause }

func failed(ctx context.Context, text string, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which may be long
	}

	if ctx.Err() != nil {
		text = "the admin interface of the gateway did not respond in time"
	}

	return &callError{text, err}
}

// StatusError is a response that reports a failure.
type StatusError struct {
	Method string
	Path   string
	Status int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the gateway responded to %s %s with status %d", e.Method, e.Path, e.Status)
}
