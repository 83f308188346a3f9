package openai

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// maxWaiting bounds the requests of a connection that wait for the response in progress.
const maxWaiting = 8

// socket is a WebSocket connection, which has one response in progress at a time.
type socket struct {
	s       *server
	w       http.ResponseWriter // for the ids of the request
	request context.Context     // ends with the access of the client
	line    context.Context     // of the connection, which ends after request
	conn    *websocket.Conn
	fail    context.CancelCauseFunc // ends the response in progress

	// last is the last response if that is not stored, and the conversation up to its end. Another
	// connection cannot continue it.
	last   string
	talk   conversation
	memory *httpapi.Memory // of talk
}

// message is one message of a client.
type message struct {
	req    *responsesRequest
	memory *httpapi.Memory
	err    error
}

// Ends of a connection.
var (
	errTooManyMessages = errors.New("more requests wait than are accepted")
	errStopping        = errors.New("the server is stopping")
	errDenied          = errors.New("the access of the client has ended")
)

// openSocket handles GET /responses, the WebSocket form of POST /responses.
func (s *server) openSocket(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		return &failure{status: http.StatusUpgradeRequired, message: "GET /responses opens a WebSocket"}
	}

	// A page of another origin could open a connection, unlike other requests with GET.
	asPost := *r
	asPost.Method = http.MethodPost
	if http.NewCrossOriginProtection().Check(&asPost) != nil {
		return &failure{status: http.StatusForbidden, message: "cross-origin request"}
	}

	defer s.sockets.Add(-1)
	if s.sockets.Add(1) > int64(s.cfg.MaxSockets) {
		return &failure{status: http.StatusServiceUnavailable, message: "there are too many WebSocket connections"}
	}

	if !s.begin() {
		return &failure{status: http.StatusServiceUnavailable, message: errStopping.Error()}
	}

	defer s.running.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the origin is checked
	if err != nil {
		return nil // Accept has responded
	}

	conn.SetReadLimit(s.cfg.MaxBytes + maxContent)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.life, func() { cancel(errStopping) })
	defer stop()
	c := &socket{
		s: s, w: w, request: r.Context(), line: context.WithoutCancel(r.Context()), conn: conn, fail: cancel,
		memory: &httpapi.Memory{Reserve: s.cfg.Host.Reserve},
	}
	defer c.memory.Release()
	c.serve(ctx)
	return nil
}

// begin adds to running, unless the server is stopping.
func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}

	s.running.Add(1)
	return true
}

// serve responds to the messages of the client until the connection ends.
func (c *socket) serve(ctx context.Context) {
	messages := make(chan message, maxWaiting)
	var parts sync.WaitGroup
	parts.Go(func() { c.read(messages) })
	parts.Go(func() { c.beat(ctx) })
	code, reason := c.respondAll(ctx, messages)
	if code == 0 {
		_ = c.conn.CloseNow()
	} else {
		_ = c.conn.Close(code, reason)
	}

	c.fail(nil)
	parts.Wait()
	for m := range messages {
		m.memory.Release()
	}
}

// respondAll responds to messages one after another. It returns the code of the end of the
// connection, or 0 if that has ended.
func (c *socket) respondAll(ctx context.Context, messages <-chan message) (websocket.StatusCode, string) {
	life := time.NewTimer(c.s.cfg.SocketLife)
	defer life.Stop()
	idle := time.NewTimer(c.s.cfg.SocketIdle)
	defer idle.Stop()
	for {
		select {
		case <-life.C:
			c.sendError(&failure{status: http.StatusBadRequest, message: "the connection is too old: open another one", code: "websocket_connection_limit_reached"})
			return websocket.StatusNormalClosure, "the connection is too old"
		default:
		}

		select {
		case m, ok := <-messages:
			if !ok {
				if errors.Is(context.Cause(ctx), errTooManyMessages) {
					return websocket.StatusPolicyViolation, errTooManyMessages.Error()
				}

				return 0, ""
			}

			if ctx.Err() != nil {
				m.memory.Release()
				continue
			}

			c.respond(ctx, m)
			idle.Reset(c.s.cfg.SocketIdle)
		case <-idle.C:
			return websocket.StatusNormalClosure, "the connection is idle"
		case <-life.C:
			life.Reset(0)
		case <-c.request.Done():
			return websocket.StatusPolicyViolation, errDenied.Error()
		case <-c.s.life.Done():
			return websocket.StatusGoingAway, errStopping.Error()
		}
	}
}

// read reads the messages of the client. The end of the connection cancels the response in
// progress.
func (c *socket) read(messages chan<- message) {
	defer close(messages)
	defer c.fail(nil)
	for {
		kind, body, err := c.conn.Reader(c.line)
		if err != nil {
			return
		}

		m := message{req: &responsesRequest{}, memory: &httpapi.Memory{Reserve: c.s.cfg.Host.Reserve}}
		m.err = c.s.readJSON(nil, &http.Request{Body: io.NopCloser(body), ContentLength: -1}, m.memory, m.req)
		if kind != websocket.MessageText && m.err == nil {
			m.err = invalid("type", "must be that of a text message")
		}

		if _, err := io.Copy(io.Discard, body); err != nil { // what ReadJSON has left
			m.memory.Release()
			return
		}

		select {
		case messages <- m:
		default:
			m.memory.Release()
			c.fail(errTooManyMessages)
			return
		}
	}
}

// beat sends pings until ctx ends, so that proxies do not close the connection, and a client that
// has left is detected.
func (c *socket) beat(ctx context.Context) {
	period := cmp.Or(c.s.cfg.Heartbeat, 15*time.Second)
	if period < 0 {
		return
	}

	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}

		ping, cancel := context.WithTimeout(ctx, c.writeTimeout())
		err := c.conn.Ping(ping)
		cancel()
		if err != nil && ctx.Err() == nil {
			_ = c.conn.CloseNow()
			return
		}
	}
}

func (c *socket) writeTimeout() time.Duration {
	if c.s.cfg.WriteTimeout < 0 {
		return time.Hour
	}

	return cmp.Or(c.s.cfg.WriteTimeout, 30*time.Second)
}

// respond responds to one message.
func (c *socket) respond(ctx context.Context, m message) {
	defer m.memory.Release()
	a, err := c.readMessage(&m)
	if err != nil {
		c.sendError(err)
		return
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.open = func() (sink, error) { return &socketSink{c, cancel}, nil }
	continued := a.req.PreviousResponseID != "" && a.req.PreviousResponseID == c.last
	if continued && !a.req.stored() {
		a.before = c.talk
	}

	err = a.execute(ctx)
	switch {
	case a.output.events != nil:
		a.end(err)
	case err != nil:
		c.sendError(err)
	}

	switch {
	case err == nil && a.req.stored(), err != nil && continued:
		c.remember("", nil)
	case err == nil:
		c.remember(a.id().String(), a.whole())
	}
}

// readMessage returns the response to a message, which has not begun.
func (c *socket) readMessage(m *message) (*responseRun, error) {
	switch {
	case m.err != nil:
		return nil, m.err
	case m.req.Type != "response.create":
		return nil, invalid("type", "must be response.create")
	case m.req.Background:
		return nil, unsupported("background", "use POST /responses")
	}

	m.req.Stream = true
	x := &exchange{s: c.s, w: c.w, memory: m.memory, agentID: m.req.Model, created: time.Now().Unix(), stream: true}
	return c.s.newResponse(c.request, x, m.req)
}

// remember replaces the last response.
func (c *socket) remember(id string, talk conversation) {
	size := 0
	for _, turn := range talk {
		size += 2 * len(turn.Content)
		for i := range turn.Parts {
			size += len(turn.Parts[i].Data) + 2*len(turn.Parts[i].Text)
		}
	}

	if c.memory.Hold(size) != nil {
		id, talk = "", nil
		c.memory.Release()
	}

	c.last, c.talk = id, talk
}

// whole returns the conversation up to the end of the response.
func (a *responseRun) whole() conversation {
	talk := a.with(a.before)
	for i := range a.output.items {
		a.output.items[i].appendTo(&talk)
	}

	return talk
}

// socketSink is the sink of a response.
type socketSink struct {
	*socket
	cancel context.CancelFunc
}

// Queue implements sink.
func (s *socketSink) Queue(_ string, data []byte) {
	if s.send(data) != nil {
		s.cancel()
	}
}

// QueueFrame implements sink.
func (s *socketSink) QueueFrame(frame []byte, data int) { s.Queue("", frame[data:len(frame)-2]) }

// Flush implements sink.
func (s *socketSink) Flush() {}

// send sends a message. The connection is closed if the client does not read it.
func (c *socket) send(data []byte) error {
	ctx, cancel := context.WithTimeout(c.line, c.writeTimeout())
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, data)
}

// socketError is the message about a request that has not begun.
type socketError struct {
	Type   string      `json:"type"` // error
	Status int         `json:"status"`
	Error  errorDetail `json:"error"`
}

func (c *socket) sendError(err error) {
	f := c.s.failureOf(c.w, err)
	body := socketError{Type: "error", Status: f.status, Error: f.body().Error}
	if body.Error.Code == nil {
		body.Error.Code = &body.Error.Type // it is required here
	}

	if data, err := httpapi.Marshal(body); err == nil {
		_ = c.send(data) // a failure ends the connection
	}
}
