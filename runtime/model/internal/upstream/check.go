package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/sse"
)

// check returns nil if the response is an event stream.
func (c *Client) check(resp *http.Response, cancel context.CancelFunc) error {
	status := resp.StatusCode
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if status == http.StatusOK && (media == "text/event-stream" || media == "" && err != nil && resp.Header.Get("Content-Type") == "") {
		return nil
	}
	var head []byte
	within(errorWait, cancel, func() { head, _ = io.ReadAll(io.LimitReader(resp.Body, errorBytes)) })
	fault := ParseFault(head)

	if status == http.StatusOK {
		if fault.reported() {
			return c.reported(fault, status)
		}
		if err != nil {
			media = "an unknown type"
		}
		return &model.Error{Code: model.CodeServer, Status: status,
			Message: c.safe(fmt.Sprintf("upstream responded with %s, not an event stream", media))}
	}
	code := statusCode(status)
	switch {
	case fault.rateLimited() && status >= 400 && status < 500:
		code = model.CodeRateLimit
	case code == model.CodeInvalidRequest && fault.tooLong():
		code = model.CodePromptTooLong
	}
	return &model.Error{
		Code:       code,
		Status:     status,
		Message:    c.message(code, status, fault.Message),
		RetryAfter: retryAfter(resp.Header, time.Now()),
	}
}

// fault returns the error of a call whose response had begun.
func (c *Client) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var (
		fault *Fault
		coded *model.Error
		limit *sse.LimitError
	)
	switch {
	case errors.As(err, &fault):
		return c.reported(fault, http.StatusOK)
	case errors.As(err, &coded):
		coded.Status = http.StatusOK
		coded.Message = c.safe(coded.Message)
		return coded
	case errors.As(err, &limit):
		return &model.Error{Code: model.CodeServer, Status: http.StatusOK,
			Message: "upstream sent an event over the size limit", Err: err}
	case errors.Is(err, ErrEnded):
		return &model.Error{Code: model.CodeConnection, Status: http.StatusOK,
			Message: "upstream ended its response before it was complete", Err: err}
	default:
		return &model.Error{Code: model.CodeConnection, Status: http.StatusOK,
			Message: "the connection to upstream was lost during its response", Err: err}
	}
}

// unreachable returns the error of a call without a response.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &model.Error{Code: model.CodeConnection, Message: "the connection to upstream failed", Err: err}
}

// reported returns the error for a fault in a response with status 200.
func (c *Client) reported(fault *Fault, status int) error {
	code := fault.code()
	return &model.Error{Code: code, Status: status, Message: c.message(code, status, fault.Message)}
}

func (c *Client) message(code model.Code, status int, text string) string {
	if code == model.CodeAuth && status != http.StatusForbidden {
		return "upstream did not accept the API key" // messages of this kind often show a part of the key
	}
	if text = c.safe(text); text != "" {
		return text
	}
	switch {
	case status == http.StatusOK:
		return "upstream returned an error without a message"
	case status == http.StatusForbidden:
		return "upstream refused the request (status 403): check the permissions of the API key"
	case status >= 300 && status < 400:
		return fmt.Sprintf("upstream responded with a redirect (status %d)", status)
	}
	return fmt.Sprintf("upstream responded with status %d", status)
}

// statusCode classifies every status other than 200.
func statusCode(status int) model.Code {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return model.CodeAuth
	case status == http.StatusTooManyRequests:
		return model.CodeRateLimit
	case status == http.StatusRequestEntityTooLarge:
		return model.CodePromptTooLong
	case status == 529:
		return model.CodeOverloaded
	case status >= 400 && status < 500:
		return model.CodeInvalidRequest
	default: // 5xx, and statuses that an API does not use: 204, 302
		return model.CodeServer
	}
}

// maxRetryAfter limits implausible dates and numbers.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of RFC 9110 (10.2.3): seconds, also with a fraction, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	var wait time.Duration
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) { // NaN too
			return 0
		}
		wait = time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	} else if date, err := http.ParseTime(value); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
