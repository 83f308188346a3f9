package runtime

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/apidocs"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/startpage"
	"github.com/seed93082962/agenthost/runtime/wire"
)

//go:embed openapi.yaml
var document []byte

type route struct {
	method, path string
	handler      httpapi.Handler
}

// routes returns all routes of the API.
func (rt *Runtime) routes() []route {
	docs := apidocs.New(document)
	return []route{
		{"GET", "/", rt.start},
		{"HEAD", "/", rt.start},
		{"GET", "/health", rt.health},
		{"HEAD", "/health", rt.health},
		{"GET", "/health/ready", rt.ready},
		{"HEAD", "/health/ready", rt.ready},
		{"GET", "/openapi.yaml", documented(docs.ServeYAML)},
		{"HEAD", "/openapi.yaml", documented(docs.ServeYAML)},
		{"GET", "/openapi.json", documented(docs.ServeJSON)},
		{"HEAD", "/openapi.json", documented(docs.ServeJSON)},
		{"GET", "/docs", documented(docs.ServePage)},
		{"HEAD", "/docs", documented(docs.ServePage)},
		{"GET", "/v1/agents", rt.listAgents},
		{"HEAD", "/v1/agents", rt.listAgents},
		{"GET", "/v1/agents/:agentId", rt.showAgent},
		{"HEAD", "/v1/agents/:agentId", rt.showAgent},
		{"POST", "/v1/agents/:agentId/runs", rt.startRun},
		{"POST", "/v1/runs/:runId/cancel", rt.cancelRun},
		{"POST", "/v1/uploads", rt.createUpload},
		{"GET", "/v1/sessions/:sessionId", rt.showSession},
		{"HEAD", "/v1/sessions/:sessionId", rt.showSession},
		{"DELETE", "/v1/sessions/:sessionId", rt.deleteSession},
		{"GET", "/v1/files", rt.served(rt.files.List)},
		{"HEAD", "/v1/files", rt.served(rt.files.List)},
		{"GET", "/v1/files/content", rt.served(rt.files.Content)},
		{"HEAD", "/v1/files/content", rt.served(rt.files.Content)},
	}
}

// documented adapts a handler of the OpenAPI document.
func documented(h func(http.ResponseWriter, *http.Request) error) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error { return h(w, r) }
}

// served adapts a handler that writes its own error responses.
func (rt *Runtime) served(h http.HandlerFunc) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
		h(w, r)
		return nil
	}
}

// quiet reports whether the access log omits a path. Health checks would fill it.
func quiet(path string) bool { return path == "/health" || path == "/health/ready" }

// start serves the start page. A client of the API gets the 404 of an unknown path.
func (rt *Runtime) start(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	if !startpage.Wanted(r) {
		return httpapi.ErrNotFound
	}

	unavailable := 0
	for _, a := range rt.agents {
		if a.engine == nil {
			unavailable++
		}
	}

	health := startpage.Row{Name: "Health", Value: "ok", Class: "ok"}
	if unavailable > 0 {
		health = startpage.Row{Name: "Health", Value: fmt.Sprintf("degraded: %d of the agents are unavailable, see the log", unavailable), Class: "bad"}
	}

	return startpage.Serve(w, r, startpage.Page{
		Server: "agenthost runtime",
		Rows:   []startpage.Row{health, {Name: "Agents", Value: strconv.Itoa(len(rt.agents))}, {Name: "Version", Value: rt.cfg.Version}},
		Links: []startpage.Link{
			{Href: "docs", Text: "Documentation", Description: "first steps, and every request of the API"},
			{Href: "openapi.yaml", Text: "OpenAPI document"},
			{Href: "health", Text: "Health", Description: "for load balancers"},
		},
	})
}

func (rt *Runtime) health(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
	h := wire.Health{
		Status:   "ok",
		Agents:   len(rt.agents),
		UptimeMs: time.Since(rt.started).Milliseconds(),
		Version:  rt.cfg.Version,
	}
	for _, a := range rt.agents {
		if a.engine == nil {
			h.Status = "degraded"
		}
	}

	if !rt.runs.Available() {
		h.Status = "degraded"
	}

	return httpapi.WriteJSON(w, http.StatusOK, h)
}

func (rt *Runtime) ready(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
	if rt.runs.Draining() {
		return httpapi.WriteJSON(w, http.StatusServiceUnavailable, readiness{Status: "draining"})
	}

	return httpapi.WriteJSON(w, http.StatusOK, readiness{Status: "ready"})
}

// Agents returns all agents in the order of the configuration. It does no I/O.
func (rt *Runtime) Agents(context.Context) ([]wire.AgentSummary, error) {
	list := make([]wire.AgentSummary, len(rt.agents))
	for i, a := range rt.agents {
		list[i] = a.summary
	}

	return list, nil
}

func (rt *Runtime) listAgents(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	list, err := rt.Agents(r.Context())
	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, list)
}

func (rt *Runtime) showAgent(w http.ResponseWriter, _ *http.Request, ps httprouter.Params) error {
	a, ok := rt.byID[ps.ByName("agentId")]
	if !ok {
		return errAgentNotFound
	}

	return httpapi.WriteJSON(w, http.StatusOK, a.currentDetail())
}

// readiness is the body of GET /health/ready.
type readiness struct {
	Status string `json:"status"` // ready, or draining with status 503
}
