package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/pattern"
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
var unknownSession = pattern.Compile(`(?i)session|not initialized`)

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

	head := readHead(resp)
	var body struct {
		ID    json.RawMessage `json:"id"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if jsonlimit.Unmarshal(head, &body) == nil {
		return body.Error.Message == noSession || unknownSession().MatchString(body.Error.Message) && !hasID(msg, body.ID)
	}

	return unknownSession().Match(head)
}

// readHead returns the beginning of the body of a response, which can still be read as a whole.
func readHead(resp *http.Response) []byte {
	late := time.AfterFunc(rejectionTime, func() { resp.Body.Close() })
	defer late.Stop()
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxRejection)) // a part is enough
	resp.Body = rejected{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return head
}

// refusal is a response with an error status and without a JSON-RPC error.
type refusal struct {
	status int
	text   string // of the body, if it is short plain text or an error object
}

// refusalOf returns the refusal of a message, or of the stream of an sse server. It is nil if the
// SDK handles the response: a JSON-RPC error, or 401 and 403 if there are credentials of OAuth.
func (w *web) refusalOf(req *http.Request, resp *http.Response) error {
	if resp.StatusCode < 400 || req.Method != http.MethodPost && (req.Method != http.MethodGet || !w.sse) {
		return nil
	}

	head := readHead(resp)
	if isCredential(resp.StatusCode) {
		if w.oauth.ClientID != "" {
			return nil
		}
	} else if rejection(head) != nil {
		return nil
	}

	r := &refusal{status: resp.StatusCode}
	var object struct {
		Error       json.RawMessage `json:"error"`
		Message     string          `json:"message"`
		Description string          `json:"error_description"`
	}
	if jsonlimit.Unmarshal(head, &object) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		var text string
		_ = jsonlimit.Unmarshal(object.Error, &inner) // it may be a string
		_ = jsonlimit.Unmarshal(object.Error, &text)
		r.text = cmp.Or(inner.Message, object.Description, object.Message, text)
	} else if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "" || kind == "text/plain" {
		r.text = string(head)
	}

	r.text = excerpt.Shorten(words(strings.ToValidUTF8(r.text, "\uFFFD")), maxRefusal)
	return r
}

// maxRefusal bounds the text of a refusal, in bytes.
const maxRefusal = 500

func (r *refusal) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("the server responded with %d %s", r.status, http.StatusText(r.status)))
	if r.text != "" {
		text += ": " + r.text
	}

	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += " (configure headers or oauth of the server)"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		text += " (check the path of url, and that transport is that of the server)"
	}

	return text
}

// isRefusal reports whether a server refused a message for a reason other than the credentials or
// the number of requests.
func isRefusal(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.status < 500 && r.status != http.StatusTooManyRequests && !isCredential(r.status)
}

// isCredential reports whether a status means that the credentials were rejected.
func isCredential(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
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
