package js

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

const fetchTime = 30 * time.Second

// fetches are the requests of a job in progress.
type fetches struct {
	mu      sync.Mutex // guards cancels and closed
	cancels map[int]context.CancelFunc
	closed  bool
	group   sync.WaitGroup
}

// add starts do. It returns false if there are too many requests.
func (f *fetches) add(ctx context.Context, id int, do func(context.Context)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return true // the job has ended
	}

	if f.cancels == nil {
		f.cancels = map[int]context.CancelFunc{}
	}

	if len(f.cancels) >= frame.MaxFetches || f.cancels[id] != nil {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	f.cancels[id] = cancel
	f.group.Go(func() {
		defer f.giveUp(id)
		do(ctx)
	})
	return true
}

func (f *fetches) giveUp(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancel := f.cancels[id]; cancel != nil {
		cancel()
		delete(f.cancels, id)
	}
}

// end cancels all requests and waits for them.
func (f *fetches) end() {
	f.mu.Lock()
	f.closed = true
	for _, cancel := range f.cancels {
		cancel()
	}

	f.mu.Unlock()
	f.group.Wait()
}

// fetch performs a request of a script and sends the response to the worker.
func (p *process) fetch(j *job, f frame.Fetch, body string) {
	fail := func(why string) {
		_ = p.out.Write(frame.KindFetched, frame.Fetched{Call: f.Call, Fetch: f.Fetch, Error: why}, "")
	}
	if j.program == nil || f.Call != j.id {
		return
	}

	started := j.fetches.add(j.ctx, f.Fetch, func(ctx context.Context) {
		answer, content, err := p.host.fetch(ctx, f, body)
		j.fetches.giveUp(f.Fetch) // before any response, after which the worker can send the next request
		if err != nil {
			fail(err.Error())
			return
		}

		answer.Call, answer.Fetch = f.Call, f.Fetch
		_ = p.out.Write(frame.KindFetched, answer, content)
	})
	if !started {
		p.kill() // the prelude never sends more
	}
}

// notForScripts are headers of the connection, which scripts cannot set.
var notForScripts = []string{
	"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Expect",
}

var errRedirected = errors.New("the response is a redirect")

func (h *Host) fetch(ctx context.Context, f frame.Fetch, body string) (frame.Fetched, string, error) {
	req, err := http.NewRequestWithContext(ctx, f.Method, f.URL, strings.NewReader(body))
	var answer frame.Fetched
	if err != nil || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return answer, "", fmt.Errorf("%.200q is not an http or https address", f.URL)
	}

	if body == "" {
		req.Body, req.GetBody = http.NoBody, nil
	}

	req.Header.Set("User-Agent", "agenthost")
	for _, field := range f.Headers {
		if name := http.CanonicalHeaderKey(field[0]); !slices.Contains(notForScripts, name) && !strings.HasPrefix(name, "Proxy-") {
			req.Header.Set(name, field[1])
		}
	}

	client := *h.cfg.Client
	switch f.Redirect {
	case "manual":
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	case "error":
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirected }
	}

	resp, err := client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}

		return answer, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, frame.MaxFetchBody+1))
	if err != nil {
		return answer, "", fmt.Errorf("read the response: %w", err)
	}

	if len(text) > frame.MaxFetchBody {
		return answer, "", fmt.Errorf("the response is larger than %d bytes", frame.MaxFetchBody)
	}

	answer = frame.Fetched{URL: resp.Request.URL.String(), Status: resp.StatusCode}
	_, answer.StatusText, _ = strings.Cut(resp.Status, " ")
	for name, values := range resp.Header {
		for _, value := range values {
			answer.Headers = append(answer.Headers, [2]string{name, value})
		}
	}

	return answer, string(text), nil
}
