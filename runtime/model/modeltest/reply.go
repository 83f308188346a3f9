package modeltest

import (
	"context"
	"net/http"
	"time"
)

// Reply is the response to one request.
type Reply struct {
	steps  []Step
	burst  bool
	repeat bool
	choose func(*Request) Reply

	status int
	header []string // pairs
	body   string
	raw    bool // body is sent as given, not as an error of the protocol
	long   bool

	script      []op // compiled steps
	usageScript []op // the same for a client that requested usage; only OpenAI distinguishes them
}

// Stream is a response that is streamed step by step, each event flushed on its own.
func Stream(steps ...Step) Reply { return Reply{steps: steps} }

// Burst is a [Stream] that writes all events between two waits in one call. The events are encoded
// only once, so that the upstream costs little in a benchmark of a client.
func Burst(steps ...Step) Reply { return Reply{steps: steps, burst: true} }

// Status is an error response with that HTTP status and the JSON error of the protocol. Headers are
// pairs of a name and a value: Status(429, "Retry-After", "7").
func Status(code int, header ...string) Reply {
	if len(header)%2 != 0 {
		panic("modeltest: a header of Status has no value")
	}

	return Reply{status: code, header: header}
}

// PromptTooLong is the error response to a conversation that exceeds the context window.
func PromptTooLong() Reply { return Reply{status: http.StatusBadRequest, long: true} }

// Raw is any other response, such as the HTML page of a proxy.
func Raw(status int, contentType, body string) Reply {
	return Reply{status: status, header: []string{"Content-Type", contentType}, body: body, raw: true}
}

// Repeat responds with r to the next request and all later ones.
func Repeat(r Reply) Reply {
	r.repeat = true
	return r
}

// Choose calls f for the reply when a request has arrived. It is for callers whose requests have no
// fixed order. f must be safe for concurrent use.
func Choose(f func(*Request) Reply) Reply { return Reply{choose: f} }

func (r Reply) compiled(f format) Reply {
	if r.choose == nil && r.status == 0 {
		r.script = compile(f.encoder(false), r.steps, r.burst)
		r.usageScript = compile(f.encoder(true), r.steps, r.burst)
	}

	return r
}

func (r Reply) serve(w http.ResponseWriter, hr *http.Request, u *Upstream, req *Request, usage bool) {
	for i := 0; i+1 < len(r.header); i += 2 {
		w.Header().Set(r.header[i], r.header[i+1])
	}

	switch {
	case r.raw:
		w.WriteHeader(r.status)
		_, err := w.Write([]byte(r.body))
		req.gone = err != nil
	case r.long:
		status, body := u.wire.tooLong()
		writeJSON(w, status, body)
	case r.status != 0:
		writeError(w, u.wire, r.status, "")
	case usage:
		play(hr.Context(), w, u, req, r.usageScript)
	default:
		play(hr.Context(), w, u, req, r.script)
	}
}

// play executes a script. If the script does not complete, play aborts the connection, as a failing
// vendor would.
func play(ctx context.Context, w http.ResponseWriter, u *Upstream, req *Request, script []op) {
	u.wire.header(w.Header())
	out := http.NewResponseController(w)
	for i := range script {
		var ok bool
		switch o := &script[i]; o.kind {
		case opWrite:
			_, err := w.Write(o.data)
			if err == nil {
				err = out.Flush()
			}

			ok = err == nil && (ctx.Err() == nil || i == len(script)-1)
		case opDrop:
			panic(http.ErrAbortHandler)
		default:
			ok = await(ctx, u.closed, o)
		}

		if !ok {
			select {
			case <-u.closed:
			default:
				req.gone = true
			}

			panic(http.ErrAbortHandler)
		}
	}
}

// await reports whether the script may continue.
func await(ctx context.Context, closed <-chan struct{}, o *op) bool {
	var timeout <-chan time.Time
	if o.kind == opWait {
		t := time.NewTimer(o.wait)
		defer t.Stop()
		timeout = t.C
	}

	select {
	case <-timeout:
	case <-o.gate:
	case <-ctx.Done():
		return false
	case <-closed:
		return false
	}

	return true
}
