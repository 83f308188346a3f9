package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// remote is one tool of a server. It is valid for all links of the server.
type remote struct {
	server *server
	spec   spec
}

var _ tool.Timed = (*remote)(nil)

func (r *remote) Spec() tool.Spec { return r.spec.Spec }

// Timeout returns the timeout of the server, if it has one.
func (r *remote) Timeout(_ json.RawMessage, limit time.Duration) time.Duration {
	return cmp.Or(r.server.timeout, limit)
}

// traceMeta returns the trace of ctx as the protocol has it in a request of any transport, or nil.
func traceMeta(ctx context.Context) sdk.Meta {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return nil
	}

	meta := sdk.Meta{}
	for name, value := range carrier {
		meta[name] = value
	}

	return meta
}

// call connects, and calls send. It calls send again, once, if the first message did not reach the
// server.
func (s *server) call(ctx context.Context, call tool.Call, send func(context.Context, *link) (tool.Result, error)) (tool.Result, error) {
	for again := true; ; again = false {
		l, err := s.connect(ctx)
		var answer tool.Result
		if err == nil {
			err = l.awaitProbe(ctx)
		}

		if err == nil {
			done := l.use(call)
			answer, err = do(ctx, l, func(ctx context.Context) (tool.Result, error) { return send(ctx, l) })
			done()
		}

		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			if l != nil && timedOut(ctx) {
				l.probe()
			}

			return tool.Result{}, context.Cause(ctx)
		case l == nil:
			return s.failed("", err), nil
		case notSent(err):
			l.end(err)
			if again {
				continue
			}
		}

		failed := s.failed(meaning(l, err), err)
		if l.session.ID() != "" && isRefusal(err) { // the session may be the reason
			l.probe()
		}

		return failed, nil
	}
}

// meaning describes to the model what an error means for the call.
func meaning(l *link, err error) string {
	switch {
	case notSent(err):
		return "the call was not sent: "
	case l.life.Err() != nil || errors.Is(err, io.EOF):
		return "the connection was lost during the call, which may or may not have been executed: "
	}

	return "the call failed: "
}

func (s *server) failed(doing string, err error) tool.Result {
	return tool.Result{Output: s.fault(doing, err).Error(), IsError: true}
}

// notSent reports whether a failed call has definitely not reached a tool.
func notSent(err error) bool {
	if errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, errSessionGone) {
		return true
	}

	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}

	return isBrokenPipe(err)
}

// isBrokenPipe reports whether a write failed because the server has ended. An incomplete line is
// never executed.
func isBrokenPipe(err error) bool {
	path, ok := errors.AsType[*os.PathError](err)
	return ok && path.Op == "write" && (errors.Is(path.Err, syscall.EPIPE) || errors.Is(path.Err, os.ErrClosed))
}
