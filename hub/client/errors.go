package client

import (
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// temporary reports whether the request may succeed later.
func temporary(e *wire.Error) bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}

	return false
}

// maxErrorValues bounds the values of an error response.
const maxErrorValues = 1 << 14

// failure returns the error of a response.
func failure(res *http.Response, data []byte) error {
	e := &wire.Error{Status: res.StatusCode, RetryAfter: outbound.RetryAfter(res.Header), RequestID: res.Header.Get("X-Request-Id")}
	if err := (jsonlimit.Limit{Values: maxErrorValues}).Check(data); err != nil {
		return errors.Join(e, err)
	}

	_ = jsonlimit.Unmarshal(data, e) // a proxy may send any body
	return e
}
