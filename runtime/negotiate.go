package runtime

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// answerMode is how a run is answered.
type answerMode struct {
	stream   bool // as server-sent events, else as one JSON
	partials bool // with partial messages
}

// accepted is what an Accept header names.
type accepted struct {
	sse, json, any          bool
	refusesSSE, refusesJSON bool
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
				a.sse, a.refusesSSE = wanted, !wanted
			case "text/*":
				a.sse = a.sse || wanted && !a.refusesSSE
				a.refusesSSE = a.refusesSSE || !wanted && !a.sse
			case "application/json":
				a.json, a.refusesJSON = wanted, !wanted
			case "application/*":
				a.json = a.json || wanted && !a.refusesJSON
				a.refusesJSON = a.refusesJSON || !wanted && !a.json
			case "*/*":
				a.any = wanted
			}
		}
	}
	return a, given
}

// negotiate chooses the answer: by the Accept header where it names one, else by the field stream.
func negotiate(h http.Header, mode wire.StreamMode) (answerMode, error) {
	stream := answerMode{stream: true, partials: mode != wire.StreamBlock}
	a, given := readAccept(h.Values("Accept"))
	switch {
	case a.sse:
		return stream, nil
	case a.json:
		return answerMode{}, nil
	case given && !a.any, a.refusesSSE && a.refusesJSON:
		return answerMode{}, errNotAcceptable
	case a.refusesSSE:
		return answerMode{}, nil
	case mode == wire.StreamOff && !a.refusesJSON:
		return answerMode{}, nil
	}
	return stream, nil
}
