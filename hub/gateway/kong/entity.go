package kong

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/internal/admin"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// entity is a service or a route of Kong. One with fields of other types has no name and no tag.
type entity struct {
	id   string
	name string
	tags []string
	text json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *entity) UnmarshalJSON(text []byte) error {
	e.text = slices.Clone(text)
	var mark struct {
		ID   string   `json:"id"`
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if jsonlimit.Unmarshal(text, &mark) == nil {
		e.id, e.name, e.tags = mark.ID, mark.Name, mark.Tags
	}

	return nil
}

func tag(owner string) string { return "agenthost-" + owner }

func (e *entity) tagged(owner string) bool { return slices.Contains(e.tags, tag(owner)) }

// equal reports whether Kong has an entity as it should be.
func (e *entity) equal(want, defaults admin.Object) bool {
	return admin.Equal(e.text, want, defaults, "id", "created_at", "updated_at", "ws_id")
}

// The values of fields that an entity of the hub does not have.
var (
	serviceDefaults = admin.Object{"enabled": true}
	routeDefaults   = admin.Object{"https_redirect_status_code": 426.0}
)

// The bounds of a request in milliseconds. A runtime is called once: a second attempt could be a
// second run.
const (
	connectTimeout = 10_000
	writeTimeout   = 60_000
)

func serviceOf(owner string, r deploy.Route) (admin.Object, error) {
	target, err := admin.Parse(r)
	if err != nil {
		return nil, err
	}

	return admin.Object{
		"name": r.Key, "protocol": target.Scheme, "host": target.Host, "port": target.Port,
		"retries": 0, "connect_timeout": connectTimeout, "write_timeout": writeTimeout, "read_timeout": r.Timeout.Milliseconds(),
		"tags": []string{tag(owner)},
	}, nil
}

// routeOf returns the route of Kong. A plain path is a prefix of characters: with a slash at its
// end, it does not match names that begin with it. A regular expression matches the path without
// the slash. The runtime compares the host with the origin of a page.
func routeOf(owner string, r deploy.Route, serviceID string) admin.Object {
	want := admin.Object{
		"name": r.Key, "protocols": []string{"http", "https"}, "paths": []string{r.Path + "/", "~" + r.Path + "$"},
		"regex_priority": 0, "strip_path": true, "path_handling": "v0", "preserve_host": true,
		"request_buffering": false, "response_buffering": false, "service": admin.Object{"id": serviceID}, "tags": []string{tag(owner)},
	}
	if r.Host != "" {
		want["hosts"] = []string{r.Host}
	}

	return want
}

// read returns the route that a service and a route of Kong were made of, or one that has only its
// key.
func read(owner, name string, s, r *entity) deploy.Route {
	changed := deploy.Route{Key: name}
	var service struct {
		Protocol    string `json:"protocol"`
		Host        string `json:"host"`
		Port        int    `json:"port"`
		ReadTimeout int64  `json:"read_timeout"`
	}
	var route struct {
		Hosts []string `json:"hosts"`
		Paths []string `json:"paths"`
	}
	if s == nil || jsonlimit.Unmarshal(s.text, &service) != nil || jsonlimit.Unmarshal(r.text, &route) != nil {
		return changed
	}

	found := deploy.Route{
		Key: name, Target: admin.Target{Scheme: service.Protocol, Host: service.Host, Port: service.Port}.URL(),
		Timeout: time.Duration(service.ReadTimeout) * time.Millisecond,
	}
	if len(route.Hosts) == 1 {
		found.Host = route.Hosts[0]
	}

	for _, path := range route.Paths {
		if strings.HasPrefix(path, "/") {
			found.Path = strings.TrimSuffix(path, "/")
		}
	}

	want, err := serviceOf(owner, found)
	if err != nil || !s.equal(want, serviceDefaults) || !r.equal(routeOf(owner, found, s.id), routeDefaults) {
		return changed
	}

	return found
}
