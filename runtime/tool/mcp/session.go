package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"time"
)

const (
	// maxRejection bounds the part of a body that is searched for the reason of a rejection, in
	// bytes.
	maxRejection = 16 << 10

	// rejectionTime bounds the wait for that part.
	rejectionTime = time.Second
)

// unknownSession matches the messages of servers that respond with 400 instead of 404 to a session
// that they do not know.
var unknownSession = regexp.MustCompile(`(?i)session|not initialized`)

// sessionUnknown reports whether a server rejected a POST because it does not know the session. The
// status is 404, as the protocol requires, or 400 with a message about the session that is not the
// response to the call. Such a call has not reached a tool.
func (w *web) sessionUnknown(req *http.Request, resp *http.Response) bool {
	if !w.sse && req.Header.Get("Mcp-Session-Id") == "" {
		return false
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return true
	case http.StatusBadRequest:
	default:
		return false
	}
	late := time.AfterFunc(rejectionTime, func() { resp.Body.Close() })
	defer late.Stop()
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxRejection)) //nolint:errcheck // a part is enough
	resp.Body = rejected{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	var message struct {
		ID    json.RawMessage
		Error struct{ Message string }
	}
	if json.Unmarshal(head, &message) == nil {
		return (message.ID == nil || string(message.ID) == "null") && unknownSession.MatchString(message.Error.Message)
	}
	return unknownSession.Match(head)
}

// rejected is a response body that first returns its beginning, which has already been read.
type rejected struct {
	io.Reader
	io.Closer
}
