package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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

// noSession is the message of the servers that were written after the example of the TypeScript
// SDK. Some respond with the id of the call, as a tool does.
const noSession = "Bad Request: No valid session ID provided"

// sessionUnknown reports whether a server rejected a message because it does not know the session.
// The status is 404, as the protocol requires, or 400 with a text about the session that is not the
// response to the message. Such a message has not reached a tool.
func (w *web) sessionUnknown(req *http.Request, msg jsonrpc.Message, resp *http.Response) bool {
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
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxRejection)) // a part is enough
	resp.Body = rejected{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	var body struct {
		ID    json.RawMessage
		Error struct{ Message string }
	}
	if json.Unmarshal(head, &body) == nil {
		return body.Error.Message == noSession || unknownSession.MatchString(body.Error.Message) && !hasID(msg, body.ID)
	}
	return unknownSession.Match(head)
}

// hasID reports whether id is that of the message.
func hasID(msg jsonrpc.Message, id json.RawMessage) bool {
	call, ok := msg.(*jsonrpc.Request)
	return ok && fmt.Sprint(call.ID.Raw()) == strings.Trim(string(id), `"`)
}

// rejected is a response body that first returns its beginning, which has already been read.
type rejected struct {
	io.Reader
	io.Closer
}
