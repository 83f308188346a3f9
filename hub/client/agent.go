package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Agents reads and changes the configurations of agents.
type Agents struct {
	Catalog[hubwire.Agent, hubwire.AgentRequest]
	Enabled reader[hubwire.Agent] // List and Get of those that the caller may use
}

// Manifest returns the enabled agents with hashes of their content.
func (a Agents) Manifest(ctx context.Context) (hubwire.Manifest, error) {
	return get[hubwire.Manifest](ctx, a.c, "/api/v1/agents/manifest", nil)
}

// Detail returns a deployed agent as its runtime describes it.
func (a Agents) Detail(ctx context.Context, name string) (wire.AgentDetail, error) {
	return get[wire.AgentDetail](ctx, a.c, "/api/v1/agents/"+segment(name)+"/detail", nil)
}

// Export returns an agent as a configuration file of the runtime, in YAML.
func (a Agents) Export(ctx context.Context, name string) ([]byte, error) {
	return a.c.text(ctx, a.path+"/"+segment(name)+"/export", nil, yamlMedia)
}

// Import creates an agent from a configuration file of the runtime with one agent. With replace, an
// agent of the same name is replaced.
func (a Agents) Import(ctx context.Context, file string, replace bool) (hubwire.Agent, error) {
	query := url.Values{}
	if replace {
		query.Set("replace", "true")
	}

	return decode[hubwire.Agent](ctx, a.c, request{
		method: http.MethodPost, path: withQuery(a.path+"/import", query), accept: jsonMedia, media: yamlMedia,
		body: func() io.Reader { return strings.NewReader(file) }, length: int64(len(file)), header: http.Header{},
	})
}

const yamlMedia = "application/yaml"

// Mounted yields the names of the components of a kind that an agent mounts: tools, skills or mcps.
func (a Agents) Mounted(ctx context.Context, name, kind string) iter.Seq2[string, error] {
	return whole[string](ctx, a.c, a.path+"/"+segment(name)+"/"+segment(kind))
}

// Mount replaces the components of a kind, tools, skills or mcps, that an agent mounts, as
// [Catalog.Update] does.
func (a Agents) Mount(ctx context.Context, name, kind string, version int64, items []string) error {
	return a.mount(ctx, name, kind, version, bodies.BindingsRequest{Items: append([]string{}, items...)})
}

// Knowledge yields the knowledge sets that an agent mounts.
func (a Agents) Knowledge(ctx context.Context, name string) iter.Seq2[hubwire.KnowledgeRef, error] {
	return whole[hubwire.KnowledgeRef](ctx, a.c, a.path+"/"+segment(name)+"/knowledge")
}

// MountKnowledge replaces the knowledge sets that an agent mounts.
func (a Agents) MountKnowledge(ctx context.Context, name string, version int64, items []hubwire.KnowledgeRef) error {
	return a.mount(ctx, name, "knowledge", version, bodies.KnowledgeBindingsRequest{Items: append([]hubwire.KnowledgeRef{}, items...)})
}

func (a Agents) mount(ctx context.Context, name, kind string, version int64, body any) error {
	r, err := jsonRequest(http.MethodPut, a.path+"/"+segment(name)+"/"+segment(kind), body)
	if err != nil {
		return err
	}

	r.match(version)
	_, err = decode[struct{}](ctx, a.c, r)
	return err
}

// whole requests a list that has no pages. Callers change and replace it, so that no element is
// omitted.
func whole[T any](ctx context.Context, c *Client, path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p, err := get[page[[]T]](ctx, c, path, nil)
		if err != nil {
			var none T
			yield(none, err)
			return
		}

		for _, item := range p.Items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
