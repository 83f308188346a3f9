package kong

import (
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/internal/admin"
)

// service is a service of Kong. Fields with omitempty are those that have no value in an entity of
// the hub: a value was set at the gateway.
type service struct {
	ID             string   `json:"id,omitempty"`
	Name           string   `json:"name"`
	Protocol       string   `json:"protocol"`
	Host           string   `json:"host"`
	Port           int      `json:"port"`
	Path           *string  `json:"path,omitempty"`
	Enabled        *bool    `json:"enabled,omitempty"`
	Retries        int      `json:"retries"`
	ConnectTimeout int64    `json:"connect_timeout"` // in milliseconds, like the others
	WriteTimeout   int64    `json:"write_timeout"`
	ReadTimeout    int64    `json:"read_timeout"`
	Tags           []string `json:"tags"`
}

// route is a route of Kong.
type route struct {
	ID                string    `json:"id,omitempty"`
	Name              string    `json:"name"`
	Protocols         []string  `json:"protocols"`
	Hosts             []string  `json:"hosts,omitempty"`
	Paths             []string  `json:"paths"`
	Methods           []string  `json:"methods,omitempty"`
	Headers           any       `json:"headers,omitempty"`
	SNIs              []string  `json:"snis,omitempty"`
	Sources           any       `json:"sources,omitempty"`
	Destinations      any       `json:"destinations,omitempty"`
	RegexPriority     int       `json:"regex_priority"`
	StripPath         bool      `json:"strip_path"`
	PathHandling      string    `json:"path_handling"`
	PreserveHost      bool      `json:"preserve_host"`
	RequestBuffering  bool      `json:"request_buffering"`
	ResponseBuffering bool      `json:"response_buffering"`
	Service           reference `json:"service"`
	Tags              []string  `json:"tags"`
}

type reference struct {
	ID string `json:"id"`
}

// The bounds of a request in milliseconds. A runtime is called once: a second attempt could be a
// second run.
const (
	connectTimeout = 10_000
	writeTimeout   = 60_000
)

func serviceOf(owner string, r deploy.Route) (service, error) {
	target, err := admin.Parse(r)
	if err != nil {
		return service{}, err
	}
	return service{
		Name: r.Key, Protocol: target.Scheme, Host: target.Host, Port: target.Port,
		Retries: 0, ConnectTimeout: connectTimeout, WriteTimeout: writeTimeout, ReadTimeout: milliseconds(r.Timeout),
		Tags: []string{tag(owner)},
	}, nil
}

// routeOf returns the route of Kong. A plain path is a prefix of characters: with a slash at its
// end, it does not match names that begin with it. A regular expression matches the path without
// the slash.
func routeOf(owner string, r deploy.Route, serviceID string) route {
	want := route{
		Name: r.Key, Protocols: []string{"http", "https"}, Paths: []string{r.Path + "/", "~" + r.Path + "$"},
		StripPath: true, PathHandling: "v0", Service: reference{serviceID}, Tags: []string{tag(owner)},
	}
	if r.Host != "" {
		want.Hosts = []string{r.Host}
	}
	return want
}
