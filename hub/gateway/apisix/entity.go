package apisix

import (
	"encoding/json"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/internal/admin"
)

// Labels of the routes of hubs.
const (
	labelOwner = "agenthost-owner"
	labelKey   = "agenthost-key"
)

// route is a route of APISIX. Fields with omitempty are those that have no value in a route of the
// hub: a value was set at the gateway.
type route struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	URIs     []string          `json:"uris"`
	Host     string            `json:"host,omitempty"`
	Plugins  plugins           `json:"plugins"`
	Upstream upstream          `json:"upstream"`
	Timeout  timeout           `json:"timeout"`
	Labels   map[string]string `json:"labels"`

	URI            string `json:"uri,omitempty"`
	Hosts          any    `json:"hosts,omitempty"`
	Methods        any    `json:"methods,omitempty"`
	Vars           any    `json:"vars,omitempty"`
	RemoteAddr     string `json:"remote_addr,omitempty"`
	RemoteAddrs    any    `json:"remote_addrs,omitempty"`
	FilterFunc     string `json:"filter_func,omitempty"`
	Script         any    `json:"script,omitempty"`
	ServiceID      any    `json:"service_id,omitempty"`
	UpstreamID     any    `json:"upstream_id,omitempty"`
	PluginConfigID any    `json:"plugin_config_id,omitempty"`
	Status         *int   `json:"status,omitempty"`
}

// plugins has the settings of the plugin that removes the prefix of a path. Others have the names
// of further plugins of a route that was changed at the gateway.
type plugins struct {
	Rewrite rewrite
	Others  string
}

type rewrite struct {
	RegexURI []string `json:"regex_uri"`
	URI      string   `json:"uri,omitempty"`
	Host     string   `json:"host,omitempty"`
	Method   string   `json:"method,omitempty"`
	Headers  any      `json:"headers,omitempty"`
}

const rewritePlugin = "proxy-rewrite"

// MarshalJSON implements json.Marshaler.
func (p plugins) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]rewrite{rewritePlugin: p.Rewrite})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *plugins) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for name, settings := range all {
		if name != rewritePlugin {
			p.Others = name
		} else if err := json.Unmarshal(settings, &p.Rewrite); err != nil {
			return err
		}
	}
	return nil
}

type upstream struct {
	Type     string `json:"type"`
	Scheme   string `json:"scheme"`
	PassHost string `json:"pass_host"`
	Retries  int    `json:"retries"` // a second attempt could be a second run
	Nodes    nodes  `json:"nodes"`
}

type node struct {
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Weight int    `json:"weight"`
}

// nodes is empty if it has the other form of the interface, an object: the hub does not use it.
type nodes []node

// UnmarshalJSON implements json.Unmarshaler.
func (n *nodes) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		return nil
	}
	return json.Unmarshal(text, (*[]node)(n))
}

// timeout is in seconds. The interface requires all three.
type timeout struct {
	Connect float64 `json:"connect"`
	Send    float64 `json:"send"`
	Read    float64 `json:"read"`
}

// routeOf returns the route of APISIX. A URI is exact, or a prefix of characters with a * at its
// end: with a slash before it, the prefix does not match names that begin with it.
func routeOf(owner string, r deploy.Route) (route, error) {
	target, err := admin.Parse(r)
	if err != nil {
		return route{}, err
	}
	return route{
		Name: id(r.Key), URIs: []string{r.Path, r.Path + "/*"}, Host: r.Host,
		Plugins: plugins{Rewrite: rewrite{RegexURI: []string{"^" + r.Path + "/?(.*)$", "/$1"}}},
		Upstream: upstream{
			Type: "roundrobin", Scheme: target.Scheme, PassHost: "node",
			Nodes: nodes{{Host: target.Host, Port: target.Port, Weight: 1}},
		},
		Timeout: timeout{Connect: 10, Send: 60, Read: max(r.Timeout.Round(time.Second).Seconds(), 1)},
		Labels:  map[string]string{labelOwner: owner, labelKey: r.Key},
	}, nil
}
