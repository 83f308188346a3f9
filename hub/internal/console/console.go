// Package console has the pages of a hub, with which people use and administer it in a browser, and
// the sessions of these pages.
//
//	service, err := console.New(console.Config{
//		Sessions: sessions, External: external, PublicURL: "https://hub.example.com",
//	})
//	if err != nil { ... }
//	handler, err := api.New(api.Config{...}, service.Routes()...)
//
// Every page is the same document, whose script reads the address and sends requests to the hub as
// any other client does: the pages have no permission that the API does not check. The document,
// its scripts and its style are embedded. There is no build step: the modules in web/ are served
// as they are, at addresses with the hash of all of them, which browsers store.
//
// The access token is only in the memory of a page. The refresh token is in a cookie that scripts
// cannot read, and that only pages of the hub can use. The policy of the pages permits scripts of
// the console and requests of the hub only, and no text as a script (Trusted Types).
//
// The pages do not trust the contents of responses: an object in place of a text is displayed as
// JSON and never as an element, and a part that cannot be displayed hides only itself. Markdown is
// rendered by a scanner whose work is linear in the length of a message.
package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/internal/session"
)

// Config configures [New].
type Config struct {
	// Sessions signs users in with passwords, and refreshes and ends their sessions. Required.
	Sessions *session.Service

	// External signs users in with the code of a login at an identity provider. Required.
	External *external.Service

	// ExternalMode reports that users sign in with identity providers.
	ExternalMode bool

	// PublicURL is the address of the hub. Only an offline hub, which serves no requests, has none.
	PublicURL string
}

// Service serves the pages. It is safe for concurrent use.
type Service struct {
	cfg    Config
	public *url.URL // PublicURL
	site   func() *site
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Sessions == nil || cfg.External == nil {
		return nil, errors.New("create console: Sessions and External are required")
	}

	public, err := url.Parse(cfg.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("create console: %w", err)
	}

	// The files are compressed once, when the first page is requested.
	return &Service{cfg: cfg, public: public, site: sync.OnceValue(func() *site {
		return newSite(strings.TrimRight(public.Path, "/"))
	})}, nil
}

// maxBody bounds the bodies of sign-ins, in bytes, as those of /auth/*.
const maxBody = 16 << 10

const sessionPath = "/console/session"

// Routes returns the routes of the pages and their sessions.
func (s *Service) Routes() []api.Route {
	page := func(path string) api.Route {
		return api.Route{Method: http.MethodGet, Path: path, Access: api.Open, Handle: s.page}
	}
	sessions := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: path, Access: api.Open, Category: "auth", BodyLimit: maxBody, Handle: s.ofPages(handle)}
	}
	return []api.Route{
		page("/"), page("/console"), page("/console/:page"), page("/console/:page/:item"), page("/console/:page/:item/:part"),
		{Method: http.MethodGet, Path: assetsPath + ":version/:folder/:file", Access: api.Open, Handle: s.asset},
		sessions(http.MethodPost, sessionPath, s.signIn),
		sessions(http.MethodPost, sessionPath+"/refresh", s.refresh),
		sessions(http.MethodDelete, sessionPath, s.signOut),
	}
}

// wantsPage reports whether a request is for a page, and not for JSON.
func wantsPage(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "text/html") || !strings.Contains(accept, "json")
}
