package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// olderVersion is the last protocol version that begins with initialize.
const olderVersion = "2025-11-25"

// discoverTime bounds the wait for the response to server/discover. Some servers from before 2026
// never respond to it, and wait for initialize. One of both protocols that needs longer for its
// start is served in the older one.
const discoverTime = 5 * time.Second

// recordingTransport stores its connection, since the SDK does not close it after every failure.
type recordingTransport struct {
	sdk.Transport
	conn sdk.Connection
}

func (c *recordingTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	var err error
	c.conn, err = c.Transport.Connect(ctx)
	return c.conn, err
}

func (c *recordingTransport) close() {
	if c.conn != nil {
		c.conn.Close() //nolint:errcheck // the link has ended
	}
}

// dial connects and lists the tools. The newest protocol is preferred: its servers can ask
// something within a call. The SDK sends server/discover first, and then initialize if the response
// is an error, or is late. A server from before 2026 may instead end its connection.
func (s *server) dial(ctx context.Context) (*link, *listing, error) {
	l, err := s.dialVersion(ctx, "")
	if err != nil && ctx.Err() == nil && !responded(err) {
		s.log.Debug("connecting an MCP server with the newest protocol failed, the older one follows", "err", s.words(err))
		l, err = s.dialVersion(ctx, olderVersion)
	}

	if err != nil {
		return nil, nil, err
	}

	found, err := s.list(ctx, l)
	if err != nil {
		l.end(err)
		return nil, nil, fmt.Errorf("list tools: %w", err)
	}

	return l, found, nil
}

// responded reports whether an error of connecting is a response of the server, or one of the
// transport to each message: another connection would have the same.
func responded(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	_, answered := errors.AsType[*jsonrpc.Error](err)
	return refused || answered
}

func (s *server) dialVersion(ctx context.Context, version string) (*link, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	l := &link{listing: make(chan struct{}, 1), filter: newFilter(s.log), runs: map[string]*use{}}
	l.life, l.end = context.WithCancelCause(context.Background())
	c, err := s.openEndpoint(l)
	if err != nil {
		l.end(err)
		return nil, err
	}

	patience := discoverTime
	if until, ok := ctx.Deadline(); ok { // half of the time remains for initialize
		patience = min(patience, time.Until(until)/2)
	}

	stop := context.AfterFunc(ctx, func() { l.end(context.Cause(ctx)) })
	transport := &recordingTransport{Transport: c.transport()}
	l.session, err = contain(s.log, func() (*sdk.ClientSession, error) {
		return s.client(l, patience).Connect(l.life, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	})
	if !stop() || l.life.Err() != nil { // the SDK reports any end of the link as "context canceled"
		<-l.life.Done()
		err = context.Cause(l.life)
	}

	if err != nil {
		err = c.explain(err)
		l.end(err)
	}

	s.work.Go(func() { s.supervise(l, c, transport) }) // also after a failure: the caller does not wait for the cleanup
	if err != nil {
		return nil, err
	}

	return l, nil
}

// supervise waits for the end of a link from either side, and cleans up.
func (s *server) supervise(l *link, c endpoint, transport *recordingTransport) {
	if l.session != nil {
		closed := make(chan error, 1)
		s.work.Go(func() { closed <- l.session.Wait() })
		select {
		case err := <-closed:
			if err != nil { // nil: the server closed the connection
				l.end(err)
			}
		case <-c.done():
		case <-l.life.Done():
		}
	}

	refused := l.filter.refused()
	l.end(cmp.Or(refused, errLost))
	s.log.Debug("the connection to an MCP server has ended", "cause", s.words(context.Cause(l.life)))
	c.terminate()
	if l.session != nil {
		l.session.Close() //nolint:errcheck // the link has ended
	}

	transport.close()
	c.release()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.calls.Wait()
}

// client returns a client for one link, so that each notification belongs to that link. It waits
// for the response to server/discover as long as patience.
func (s *server) client(l *link, patience time.Duration) *sdk.Client {
	client := sdk.NewClient(&sdk.Implementation{Name: s.cfg.Name, Version: s.cfg.Version}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { l.stale.Store(true) },
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
	})
	client.AddSendingMiddleware(takeResults, func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == methodDiscover {
				limited, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				ctx = limited
			}

			return next(ctx, method, req)
		}
	})
	client.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != methodChanged { // the filter passes no other notification
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
			}

			l.filter.pending.Store(false) // before the SDK drops its cache: a later change is not lost
			return next(ctx, method, req)
		}
	})
	return client
}
