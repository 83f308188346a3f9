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

// check returns nil where the answer is an event stream.
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
		if fault.told() {
			return c.told(fault, status)
		}
		if err != nil {
			media = "an unknown type"
		}
		return &model.Error{Code: model.CodeServer, Status: status,
			Message: c.safe(fmt.Sprintf("upstream answered with %s, not an event stream", media))}
	}
	code := statusCode(status)
	if code == model.CodeInvalidRequest && fault.tooLong() {
		code = model.CodePromptTooLong
	}
	return &model.Error{
		Code:       code,
		Status:     status,
		Message:    c.message(code, status, fault.Message),
		RetryAfter: retryAfter(resp.Header, time.Now()),
	}
}

// fault is the error of a call whose answer had begun.
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
		return c.told(fault, http.StatusOK)
	case errors.As(err, &coded):
		coded.Status = http.StatusOK
		coded.Message = c.safe(coded.Message)
		return coded
	case errors.As(err, &limit):
		return &model.Error{Code: model.CodeServer, Status: http.StatusOK,
			Message: "upstream sent an event over the size limit", Err: err}
	case errors.Is(err, ErrEnded):
		return &model.Error{Code: model.CodeConnection, Status: http.StatusOK,
			Message: "upstream ended its answer before it was whole", Err: err}
	default:
		return &model.Error{Code: model.CodeConnection, Status: http.StatusOK,
			Message: "the connection to upstream broke off in mid-answer", Err: err}
	}
}

// unreachable is the error of a call that got no answer.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &model.Error{Code: model.CodeConnection, Message: "the connection to upstream failed", Err: err}
}

// told is the error of a fault that came with status 200.
func (c *Client) told(fault *Fault, status int) error {
	code := fault.code()
	return &model.Error{Code: code, Status: status, Message: c.message(code, status, fault.Message)}
}

func (c *Client) message(code model.Code, status int, text string) string {
	if code == model.CodeAuth {
		return "upstream did not accept the API key" // what it says instead often shows a part of it
	}
	if text = c.safe(text); text != "" {
		return text
	}
	switch {
	case status == http.StatusOK:
		return "upstream told an error without a message"
	case status >= 300 && status < 400:
		return fmt.Sprintf("upstream answered with a redirect (status %d)", status)
	}
	return fmt.Sprintf("upstream answered with status %d", status)
}

// statusCode sorts every status that is not 200.
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
	default: // 5xx, and what an API does not answer with: 204, 302
		return model.CodeServer
	}
}

// maxRetryAfter keeps a nonsensical date or number within what a caller can reckon with.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of RFC 9110 (10.2.3), seconds or a date; fractions are seen too.
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
