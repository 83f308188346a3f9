// Package console has the pages of a hub: the start page with the state of the installation, and
// those on which a person registers with an invitation and signs in.
//
//	service := console.New(console.Config{Ready: ready, SetupRequired: ..., Agents: ...})
//	handler, err := api.New(api.Config{...}, service.Routes()...)
//
// Each page is one response, which loads nothing: its style and its script are in it, and its
// policy permits no others. The script sends requests only to the hub. It keeps the access token in
// memory, and never stores it. The token of an invitation and the code of a login are in the
// fragment of the address, which browsers send to no server.
package console

import (
	"context"
	_ "embed"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/startpage"
)

// Config configures [New].
type Config struct {
	// Version is that of the hub.
	Version string

	// External reports that users sign in with identity providers.
	External bool

	// Ready returns an error if the hub cannot serve requests. Required.
	Ready func(ctx context.Context) error

	// SetupRequired reports whether the first user has to be created. Required.
	SetupRequired func(ctx context.Context) (bool, error)

	// Agents returns the number of all agents. Required.
	Agents func(ctx context.Context) (int, error)

	// Now is the clock. Required.
	Now func() time.Time
}

// Service serves the pages. It is safe for concurrent use.
type Service struct {
	cfg   Config
	login page

	register page

	mu     sync.Mutex // guards the fields below; held while the state is read
	rows   []startpage.Row
	readAt time.Time
}

// New returns a Service.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, login: newPage(login), register: newPage(register)}
}

// Routes returns the routes of the pages.
func (s *Service) Routes() []api.Route {
	return []api.Route{
		{Method: http.MethodGet, Path: "/", Access: api.Open, Handle: s.start},
		{Method: http.MethodGet, Path: "/console/login", Access: api.Open, Handle: s.login.serve},
		{Method: http.MethodGet, Path: "/console/register", Access: api.Open, Handle: s.register.serve},
	}
}

var (
	//go:embed session.js
	script string
	//go:embed session.html
	session string
	//go:embed login.html
	login string
	//go:embed register.html
	register string
)

// page is an HTML document with its policy.
type page struct{ body, policy string }

// newPage inserts the style, and the parts that both documents have.
func newPage(text string) page {
	body := strings.NewReplacer("{{style}}", startpage.Style, "{{script}}", script, "{{session}}", session).Replace(text)
	_, code, _ := strings.Cut(body, "<script>")
	code, _, _ = strings.Cut(code, "</script>")
	return page{body: body, policy: "default-src 'none'; script-src " + startpage.Hash(code) + "; style-src " + startpage.Hash(startpage.Style) +
		"; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"}
}

func (p page) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(p.body)))
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(p.body)) // the client may have disconnected
	}
	return nil
}

// stateAge is how long the state of the installation is used: anyone may request it.
const stateAge = time.Second

func (s *Service) start(w http.ResponseWriter, r *http.Request) error {
	if !startpage.Wanted(r) {
		return api.NotFound
	}
	return startpage.Serve(w, r, startpage.Page{
		Server: "agenthost hub", Rows: s.state(r.Context()),
		Links: []startpage.Link{
			{Href: "console/login", Text: "Sign in"},
			{Href: "docs", Text: "Documentation", Description: "first steps, and every request of the API"},
			{Href: "openapi.yaml", Text: "OpenAPI document"},
			{Href: "health/ready", Text: "Readiness", Description: "for load balancers"},
		},
	})
}

// state returns what the start page shows. It is complete also if the database is unavailable.
func (s *Service) state(ctx context.Context) []startpage.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.cfg.Now().Sub(s.readAt); s.rows != nil && age >= 0 && age < stateAge {
		return s.rows
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // other callers wait for the state too
	defer cancel()
	health := startpage.Row{Name: "Health", Value: "ready", Class: "ok"}
	if err := s.cfg.Ready(ctx); err != nil {
		health = startpage.Row{Name: "Health", Value: "not ready: the log of the hub has the reason", Class: "bad"}
	}
	setup := startpage.Row{Name: "Sign-in", Value: "with the identity provider of the organization"}
	if !s.cfg.External {
		setup.Value = "with a password"
		if required, err := s.cfg.SetupRequired(ctx); err == nil && required {
			setup = startpage.Row{Name: "Sign-in", Value: "not set up: open the link that the hub printed at its start", Class: "bad"}
		}
	}
	agents := startpage.Row{Name: "Agents", Value: "unknown"}
	if n, err := s.cfg.Agents(ctx); err == nil {
		agents.Value = strconv.Itoa(n)
	}
	s.rows = []startpage.Row{health, setup, agents, {Name: "Version", Value: s.cfg.Version}}
	s.readAt = s.cfg.Now()
	return s.rows
}
