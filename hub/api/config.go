package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Config is what the hub brings.
type Config struct {
	Logger *slog.Logger // Defaults to none.

	// Authenticate says who a request is from, or what is answered: a 401 of the package's codes, or an error for
	// Translate where that could not be found out. Routes that are Open do not ask it. Required for all others.
	Authenticate func(*http.Request) (Caller, error)

	// Denied records that a caller was refused: by the group of a route, or by its handler with Forbidden. It is called
	// before the answer, and its error is answered in place of the 403: nobody is refused unrecorded. Defaults to none.
	Denied func(*http.Request, Route, Caller) error

	// Translate knows errors of other packages, such as a database that cannot be reached. It returns nil for those that
	// it does not know. Defaults to none.
	Translate func(error) *Error

	// TrustedProxies are those whose X-Forwarded-For counts. Defaults to none.
	TrustedProxies []netip.Prefix

	// CORSOrigins are the origins, such as "https://console.example.com", whose scripts may call the API. Defaults to none.
	CORSOrigins []string

	// PublicURL is the hub's own address as browsers see it, whose pages may call the API where a proxy changes Host.
	PublicURL string
}

// New makes one handler of all routes. Its error names the route, or the setting, that is at fault.
func New(cfg Config, routes ...Route) (http.Handler, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Translate == nil {
		cfg.Translate = func(error) *Error { return nil }
	}
	s := &server{cfg: cfg, words: map[string]bool{}, quiet: map[string]bool{}, cors: map[string]bool{}}
	for _, prefix := range cfg.TrustedProxies {
		prefix, err := plainPrefix(prefix)
		if err != nil {
			return nil, err
		}
		s.proxies = append(s.proxies, prefix)
	}
	for _, origin := range cfg.CORSOrigins {
		if err := checkOrigin(origin); err != nil {
			return nil, err
		}
		s.cors[origin] = true
		if err := s.crossOrigin.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	if cfg.PublicURL != "" {
		origin, err := originOf(cfg.PublicURL)
		if err != nil {
			return nil, err
		}
		if err := s.crossOrigin.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return s.handler(routes)
}

// checkOrigin holds origins to the form that browsers send, since they are compared as texts.
func checkOrigin(origin string) error {
	want, err := originOf(origin)
	if err != nil {
		return fmt.Errorf("origin %q: it must be like https://console.example.com, with no wildcard", origin)
	}
	if origin != want {
		return fmt.Errorf("origin %q: write it as browsers do, %s", origin, want)
	}
	return nil
}

// originOf is the origin of a URL, in the form that browsers send.
func originOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Contains(u.Host, "*") {
		return "", errors.New("public URL: it must be like https://hub.example.com")
	}
	host := strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, ":"+map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + strings.TrimSuffix(host, ":"), nil
}
