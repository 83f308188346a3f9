package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// maxBody bounds the body of a request to the proxy. The runtime has a limit of its own, which is
// lower by default.
const maxBody = 16 << 20

// sandbox is the policy for pages of a runtime, which have the origin of the hub: no resources, and
// no forms and redirects either.
const sandbox = "default-src 'none'; frame-ancestors 'none'; sandbox"

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	return []api.Route{
		{Prefix: true, Path: "/runtime", Access: api.Open, NoChallenge: true, BodyLimit: maxBody, Handle: s.serveProxy, Fail: s.fail},
		{Method: http.MethodGet, Path: "/api/v1/agents/:name/detail", Access: api.SignedIn, Category: "agent", Large: true, Handle: s.showDetail},
		{Method: http.MethodGet, Path: "/api/v1/admin/agents/:name/files", Group: rbac.AdminRead, Category: "agent", Large: true, Handle: s.listFiles},
		{Method: http.MethodGet, Path: "/api/v1/admin/agents/:name/files/content", Group: rbac.AdminWrite, Category: "agent", Large: true, Handle: s.readFile},
	}
}

// maxName bounds the bytes of an organization or an agent in a path.
const maxName = 128

// errNoKey is the response for all names under /runtime without the key of the deployment.
var errNoKey = wire.Unauthenticated.New("The header x-api-key must be the API key of the agent's deployment.")

// serveProxy forwards /runtime/<agent>/<path> or /runtime/<organization>/<agent>/<path> to the
// runtime's /<path>. The credential is the API key of the deployment, also for its health: without
// one, a client cannot find out which agents exist, are deployed, or run.
func (s *Service) serveProxy(w http.ResponseWriter, r *http.Request) error {
	tenant, rest := s.cfg.Tenant, strings.TrimPrefix(r.URL.EscapedPath(), "/runtime/")
	if tenant == "" {
		tenant, rest, _ = strings.Cut(rest, "/")
	}

	agent, path, found := strings.Cut(rest, "/")
	keys := r.Header["X-Api-Key"]
	if token := api.Bearer(r); len(keys) == 0 && token != "" && strings.HasPrefix(path, openAI) {
		r.Header.Set("X-Api-Key", token) // which its clients send
		keys = r.Header["X-Api-Key"]
	}

	if len(tenant) > maxName || len(agent) > maxName || len(keys) != 1 {
		return errNoKey
	}

	target, err := s.cfg.Authorize(r.Context(), tenant, agent, keys[0])
	if errors.Is(err, wire.Unauthenticated) {
		return errNoKey
	}

	if err != nil {
		return err
	}

	if !found || !isPlain(path) {
		return wire.NotFound
	}

	if r.Method == http.MethodGet && path == openAI+"responses" {
		return errSocket
	}

	cancel := r.Method == http.MethodPost && isCancel(path)
	if r.Method == http.MethodPost && !cancel { // in every protocol, this begins a run
		if err := api.TakeRate(w, r); err != nil {
			return err
		}
	}

	w.Header().Set("Content-Security-Policy", sandbox)
	x := exchange{
		target: target, path: "/" + path, query: r.URL.RawQuery,
		request: func(http.Header) {},
		check:   func(*http.Response) error { return nil },
	}
	switch {
	case cancel:
		return s.cancel(w, r, tenant, x)
	case r.Method == http.MethodPost && s.cfg.Usage != nil:
		return s.forwardRun(w, r, x, tenant, agent)
	}

	return s.forward(w, r, x)
}

// errSocket is the error of a WebSocket connection, whose runs would not count for the budget.
var errSocket = wire.InvalidRequest.New("A runtime has no WebSocket connections here: send POST requests, or use /openai/v1/responses of the hub.")

// openAI begins the paths of the protocol of OpenAI in a runtime.
const openAI = "openai/v1/"

// fail responds with an error of the hub, to clients of OpenAI in the form of their protocol.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, e *wire.Error) {
	if !strings.Contains(r.URL.Path, "/"+openAI) {
		_ = httpapi.WriteJSON(w, e.Status, e) // its fields have a JSON form
		return
	}

	kind, name := "invalid_request_error", string(e.Code)
	switch {
	case e.Status >= http.StatusInternalServerError:
		kind = "server_error"
	case e.Status == http.StatusTooManyRequests:
		kind, name = "rate_limit_error", "rate_limit_exceeded"
	case e.Status == http.StatusUnauthorized:
		name = "invalid_api_key"
	}

	_ = httpapi.WriteJSON(w, e.Status, map[string]any{"error": map[string]any{"message": e.Message, "type": kind, "param": nil, "code": name}})
}

// isPlain reports whether an escaped path has no segments that would leave its prefix.
func isPlain(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if s, err := url.PathUnescape(segment); err != nil || s == "." || s == ".." {
			return false
		}
	}

	return true
}

func (s *Service) showDetail(w http.ResponseWriter, r *http.Request) error {
	target, err := s.Detail(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}

	return s.read(w, r, target, "/v1/agents/"+url.PathEscape(target.AgentID), recode[runtimewire.AgentDetail])
}

func (s *Service) listFiles(w http.ResponseWriter, r *http.Request) error {
	target, err := s.Target(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}

	return s.read(w, r, target, "/v1/files", recodeFiles)
}

func (s *Service) readFile(w http.ResponseWriter, r *http.Request) error {
	target, err := s.File(r.Context(), api.CallerOf(r), r.PathValue("name"), r.URL.Query().Get("path"))
	if err != nil {
		return err
	}

	return s.read(w, r, target, "/v1/files/content", nil)
}

// read forwards a request that the hub has authorized. decode replaces the body of a response with
// status 200 by the JSON of the hub, or is nil for the content of a file.
func (s *Service) read(w http.ResponseWriter, r *http.Request, target Target, path string, decode func(*http.Response) error) error {
	understood := []string{"X-Request-Id"}
	if decode == nil {
		understood = append(understood, conditions...)
	}

	return s.forward(w, r, exchange{
		target: target, path: path, query: r.URL.RawQuery, within: patience,
		request: func(h http.Header) {
			retain(h, understood)
			h.Set("X-Api-Key", target.APIKey)
			h.Set("User-Agent", "") // otherwise that of net/http
		},
		check: func(res *http.Response) error { return checkRead(res, decode) },
	})
}

// checkRead rejects responses that a runtime does not send for its own API key, and decodes the
// others.
func checkRead(res *http.Response, decode func(*http.Response) error) error {
	code := res.StatusCode
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code >= http.StatusInternalServerError:
		return errors.New("the runtime responded with status " + res.Status)
	case code >= http.StatusBadRequest:
		return recodeError(res)
	case decode == nil:
		return nil
	case code != http.StatusOK:
		return errors.New("the runtime responded with status " + res.Status)
	}

	return decode(res)
}
