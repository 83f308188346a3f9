package runtime

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// responseForm is the form of the response to a run.
type responseForm struct {
	stream   bool // server-sent events, otherwise one JSON object
	partials bool // with partial messages
}

// accepted is the content of an Accept header.
type accepted struct {
	sse, json, any            bool
	excludesSSE, excludesJSON bool // by q=0
}

func readAccept(values []string) (a accepted, given bool) {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			given = true
			media, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			q, err := strconv.ParseFloat(params["q"], 64)
			wanted := err != nil || q > 0
			switch media {
			case "text/event-stream":
				a.sse, a.excludesSSE = wanted, !wanted
			case "text/*":
				a.sse = a.sse || wanted && !a.excludesSSE
				a.excludesSSE = a.excludesSSE || !wanted && !a.sse
			case "application/json":
				a.json, a.excludesJSON = wanted, !wanted
			case "application/*":
				a.json = a.json || wanted && !a.excludesJSON
				a.excludesJSON = a.excludesJSON || !wanted && !a.json
			case "*/*":
				a.any = wanted
			}
		}
	}
	return a, given
}

// negotiate selects the form of the response. It uses the Accept header if that names a form, and
// otherwise the field stream.
func negotiate(h http.Header, mode wire.StreamMode) (responseForm, error) {
	stream := responseForm{stream: true, partials: mode != wire.StreamBlock}
	a, given := readAccept(h.Values("Accept"))
	switch {
	case a.sse:
		return stream, nil
	case a.json:
		return responseForm{}, nil
	case given && !a.any, a.excludesSSE && a.excludesJSON:
		return responseForm{}, errNotAcceptable
	case a.excludesSSE:
		return responseForm{}, nil
	case mode == wire.StreamOff && !a.excludesJSON:
		return responseForm{}, nil
	}
	return stream, nil
}
