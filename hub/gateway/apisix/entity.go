package apisix

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/internal/admin"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// Labels of the routes of hubs.
const (
	labelOwner = "agenthost-owner"
	labelKey   = "agenthost-key"
)

// entity is a route of APISIX. One whose labels have another form has none.
type entity struct {
	id     string
	labels map[string]string
	text   json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler. The interface returns a route as a value.
func (e *entity) UnmarshalJSON(text []byte) error {
	var node struct {
		Value json.RawMessage `json:"value"`
	}
	if err := jsonlimit.Unmarshal(text, &node); err != nil {
		return err
	}

	var mark struct {
		ID     string            `json:"id"`
		Labels map[string]string `json:"labels"`
	}
	if jsonlimit.Unmarshal(node.Value, &mark) == nil {
		e.id, e.labels, e.text = mark.ID, mark.Labels, slices.Clone(node.Value)
	}

	return nil
}

func (e *entity) owned(owner, key string) bool {
	return key != "" && e.labels[labelOwner] == owner && e.labels[labelKey] == key
}

// defaults are the values of fields that a route of the hub does not have.
var defaults = admin.Object{"status": 1.0, "upstream": admin.Object{"hash_on": "vars"}}

func (e *entity) equal(want admin.Object) bool {
	return admin.Equal(e.text, want, defaults, "id", "create_time", "update_time")
}

// routeOf returns the route of APISIX. A URI is exact, or a prefix of characters with a * at its
// end: with a slash before it, the prefix does not match names that begin with it. The runtime
// compares the host with the origin of a page. A runtime is called once: a second attempt could be
// a second run.
func routeOf(owner string, r deploy.Route) (admin.Object, error) {
	target, err := admin.Parse(r)
	if err != nil {
		return nil, err
	}

	want := admin.Object{
		"name": id(r.Key), "uris": []string{r.Path, r.Path + "/*"},
		"plugins": admin.Object{"proxy-rewrite": admin.Object{"regex_uri": []string{"^" + r.Path + "/?(.*)$", "/$1"}}},
		"upstream": admin.Object{
			"type": "roundrobin", "scheme": target.Scheme, "pass_host": "pass", "retries": 0,
			"nodes": []admin.Object{{"host": target.Host, "port": target.Port, "weight": 1}},
		},
		"timeout": admin.Object{"connect": 10, "send": 60, "read": r.Timeout.Seconds()}, // it requires all three
		"labels":  map[string]string{labelOwner: owner, labelKey: r.Key},
	}
	if r.Host != "" {
		want["host"] = r.Host
	}

	return want, nil
}

// read returns the route that an entity was made of, or one that has only its key.
func (e *entity) read(owner, key string) deploy.Route {
	changed := deploy.Route{Key: key}
	var route struct {
		Host    string   `json:"host"`
		URIs    []string `json:"uris"`
		Timeout struct {
			Read float64 `json:"read"`
		} `json:"timeout"`
		Upstream struct {
			Scheme string `json:"scheme"`
			Nodes  []struct {
				Host string `json:"host"`
				Port int    `json:"port"`
			} `json:"nodes"`
		} `json:"upstream"`
	}
	if jsonlimit.Unmarshal(e.text, &route) != nil || len(route.Upstream.Nodes) != 1 {
		return changed
	}

	node := route.Upstream.Nodes[0]
	found := deploy.Route{
		Key: key, Host: route.Host,
		Target:  admin.Target{Scheme: route.Upstream.Scheme, Host: node.Host, Port: node.Port}.URL(),
		Timeout: time.Duration(route.Timeout.Read) * time.Second,
	}
	for _, uri := range route.URIs {
		if !strings.HasSuffix(uri, "*") {
			found.Path = uri
		}
	}

	if want, err := routeOf(owner, found); err != nil || !e.equal(want) {
		return changed
	}

	return found
}
