package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Limits of the pause after a failed attempt to connect.
const (
	minPause = time.Second
	maxPause = 30 * time.Second
)

var (
	errClosed    = errors.New("the server was closed")
	errTimeout   = errors.New("the server did not respond in time")
	errAbandoned = errors.New("the attempt to connect was abandoned")
)

var _ tool.Server = (*server)(nil)

// server is one configured server with at most one link, or one attempt to connect.
type server struct {
	cfg          Config
	name         string
	identity     string // of its definition, to which answers and approvals are bound
	limits       agent.Limits
	timeout      time.Duration // of a call; 0: that of the runtime
	instructions bool          // its instructions are part of the list
	slow         bool          // its first start has the limit MCPStartTimeout
	log          *slog.Logger
	hide         func(string) string // removes secrets from a text
	openEndpoint func(*link) (endpoint, error)
	work         sync.WaitGroup // attempts and links

	mu      sync.Mutex // guards the fields below
	closed  bool
	link    *link
	attempt *attempt
	tools   *tool.List // of the last listing
	failure error      // of the last completed attempt
	pause   time.Duration
	retryAt time.Time
	started bool // it was connected before
}

// attempt is one attempt to connect, which any number of callers wait for.
type attempt struct {
	cancel  context.CancelCauseFunc
	waiters int           // guarded by server.mu
	kept    bool          // it continues without callers; guarded by server.mu
	waiting chan struct{} // closed when its callers no longer wait
	done    chan struct{} // closed when link or err is set
	link    *link
	err     error
}

func (s *server) Name() string { return s.name }

// Definition identifies the definition of the server. The engine binds approvals to it.
func (s *server) Definition() string { return s.identity }

func (s *server) Status() tool.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return tool.Failed
	case s.link != nil && s.link.life.Err() == nil:
		return tool.Connected
	case s.failure != nil:
		return tool.Failed
	}

	return tool.Pending
}

func (s *server) Fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return nil
	}

	return s.fault("", s.failure)
}

func (s *server) Tools(ctx context.Context) (*tool.List, error) {
	for again := true; ; again = false {
		l, err := s.connect(ctx)
		if err == nil && l.stale.Load() {
			err = s.relist(ctx, l)
		}

		switch {
		case err == nil:
			return s.listed(), nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("mcp server %s: %w", s.name, context.Cause(ctx))
		case errors.Is(err, tool.ErrStarting):
			return nil, fmt.Errorf("mcp server %s: %w", s.name, err)
		case l != nil && again: // the link was lost during the listing
		default:
			return nil, s.fault("", err)
		}
	}
}

func (s *server) listed() *tool.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// fault returns an error whose text may be public.
func (s *server) fault(doing string, err error) error {
	return fmt.Errorf("mcp server %s: %s%s", s.name, doing, s.words(err))
}

// words returns the text of an error without the context that the SDK adds, redacted and bounded.
func (s *server) words(err error) string {
	text := err.Error()
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code != codeRejected {
		text = answer.Message
	}

	if r, ok := errors.AsType[*refusal](err); ok {
		text = r.Error()
	}

	if failed, ok := errors.AsType[*url.Error](err); ok { // its own text holds the URL
		text = failed.Err.Error()
	}

	return excerpt.Shorten(s.hide(text), maxErrorText)
}

// codeRejected is the SDK's code for a message that its transport rejected.
const codeRejected = -32005

// connect returns the link. If there is none, it connects.
func (s *server) connect(ctx context.Context) (*link, error) {
	s.mu.Lock()
	if s.link != nil && s.link.life.Err() != nil {
		s.link = nil
	}

	var err error
	switch {
	case s.closed:
		err = errClosed
	case s.link == nil && s.attempt == nil && time.Now().Before(s.retryAt):
		err = s.failure
	}

	if l := s.link; l != nil || err != nil {
		s.mu.Unlock()
		return l, err
	}

	if s.attempt == nil {
		s.begin()
	}

	a := s.attempt
	a.waiters++
	s.mu.Unlock()

	select {
	case <-a.done:
		return a.link, a.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-a.waiting:
		err = fmt.Errorf("%w, for at most %v", tool.ErrStarting, s.limits.MCPStartTimeout)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	// After a time limit, the attempt continues: its link, or its failure, is available to the next
	// caller.
	a.kept = a.kept || ctx.Err() == nil || timedOut(ctx)
	if a.waiters--; a.waiters == 0 && s.attempt == a && !a.kept {
		s.attempt = nil
		a.cancel(errAbandoned)
	}

	return nil, err
}

// timedOut reports whether ctx ended because of a time limit: of its own, or of a caller that
// cancels it with such a cause.
func timedOut(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// begin starts an attempt. s.mu is held.
func (s *server) begin() {
	ctx, cancel := context.WithCancelCause(context.Background())
	a := &attempt{cancel: cancel, waiting: make(chan struct{}), done: make(chan struct{})}
	s.attempt = a
	limit := s.limits.MCPConnectTimeout
	if s.slow && !s.started && s.limits.MCPStartTimeout > limit {
		late := time.AfterFunc(limit, func() { close(a.waiting) })
		context.AfterFunc(ctx, func() { late.Stop() })
		limit = s.limits.MCPStartTimeout
	}

	s.work.Go(func() {
		defer cancel(nil)
		timed, stop := context.WithTimeoutCause(ctx, limit, errTimeout)
		defer stop()
		l, found, err := s.dial(timed)
		s.finish(a, l, found, err)
	})
}

// finish stores the result of an attempt, unless the attempt was abandoned.
func (s *server) finish(a *attempt, l *link, found *listing, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(a.done)
	if s.attempt != a {
		if l != nil {
			l.end(errAbandoned)
		}

		a.err = errAbandoned
		if s.closed {
			a.err = errClosed
		}

		return
	}

	s.attempt = nil
	if err != nil {
		level := slog.LevelWarn
		if s.failure != nil && s.words(s.failure) == s.words(err) {
			level = slog.LevelDebug // the log has it
		}

		s.log.Log(context.Background(), level, "connecting an MCP server failed", "err", s.words(err))
		s.pause = min(max(2*s.pause, minPause), maxPause)
		s.retryAt = time.Now().Add(s.pause)
		s.failure, a.err = err, err
		return
	}

	s.pause, s.retryAt, s.failure = 0, time.Time{}, nil
	s.started = true
	s.link, a.link = l, l
	s.setTools(found)
}

// relist lists the tools again, for one caller at a time. After an error, the tools are unchanged.
func (s *server) relist(ctx context.Context, l *link) error {
	select {
	case l.listing <- struct{}{}:
		defer func() { <-l.listing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	if time.Now().Before(l.relistAt) || !l.stale.Swap(false) { // another caller has listed them, or has just failed
		return nil
	}

	timed, stop := context.WithTimeoutCause(ctx, s.limits.MCPConnectTimeout, errTimeout)
	defer stop()
	found, err := s.list(timed, l)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.setTools(found)
		return nil
	}

	l.stale.Store(true)
	if ctx.Err() != nil || l.life.Err() != nil {
		return err
	}

	l.relistAt = time.Now().Add(maxPause)
	s.log.Warn("listing the tools of an MCP server again failed", "err", s.words(err))
	return nil
}

func (s *server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.attempt != nil {
			s.attempt.cancel(errClosed)
			s.attempt = nil
		}

		if s.link != nil {
			s.link.end(errClosed)
		}
	}

	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// maxErrorText bounds the text of an error in bytes, since parts of it may come from the server.
const maxErrorText = 2 << 10

// minSecret is the length of the shortest redacted value: values such as 1 and true are not secret
// and occur in many texts.
const minSecret = 5

// newRedactor returns a function that replaces the values of a definition that may be secret in a
// text.
func newRedactor(def agent.MCPServer) func(string) string {
	var secrets []string
	for _, v := range def.Env {
		secrets = append(secrets, string(v))
	}

	for _, v := range def.Headers { // abc of "Bearer abc" is redacted too
		secrets = append(append(secrets, string(v)), strings.Fields(string(v))...)
	}

	secrets = append(secrets, string(def.OAuth.ClientSecret))
	if u, err := url.Parse(def.URL); err == nil && def.URL != "" {
		password, _ := u.User.Password()
		secrets = append(secrets, def.URL, u.String(), u.Redacted(), u.RawQuery, password)
	}

	secrets = slices.DeleteFunc(secrets, func(v string) bool { return len(v) < minSecret || v == "Bearer" || v == "Basic" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // a URL before its query
	var pairs []string
	for _, v := range secrets {
		pairs = append(pairs, v, "***")
	}

	return strings.NewReplacer(pairs...).Replace
}
