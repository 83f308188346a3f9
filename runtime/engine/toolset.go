package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/permission"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// toolset is what the calls of a run may name, and what of it the model is offered.
type toolset struct {
	entries map[string]*entry
	offered []model.Tool
	names   []string // of the offered tools
}

type entry struct {
	tool.Tool
	spec   tool.Spec
	schema func() (*jsonschema.Resolved, error) // made when it is first needed
}

func newEntry(t tool.Tool) (*entry, error) {
	spec := t.Spec()
	if !validName(spec.Name) {
		return nil, fmt.Errorf("tool name %q is not of the form ^[A-Za-z0-9_-]{1,64}$", spec.Name)
	}
	if len(spec.InputSchema) == 0 {
		spec.InputSchema = []byte(`{"type":"object"}`)
	}
	if err := json.Unmarshal(spec.InputSchema, &map[string]json.RawMessage{}); err != nil {
		return nil, fmt.Errorf("input schema of tool %q is not a JSON object: %w", spec.Name, err)
	}
	return &entry{t, spec, sync.OnceValues(func() (*jsonschema.Resolved, error) {
		var schema jsonschema.Schema
		if err := json.Unmarshal(spec.InputSchema, &schema); err != nil {
			return nil, err
		}
		return schema.Resolve(nil)
	})}, nil
}

func validName(name string) bool { return ids.Plain(name, 64) && !strings.Contains(name, ".") }

// newToolset checks the tools, whose names must differ.
func newToolset(tools []tool.Tool, policy *permission.Policy) (*toolset, error) {
	s := &toolset{entries: make(map[string]*entry, len(tools))}
	for _, t := range tools {
		e, err := newEntry(t)
		if err != nil {
			return nil, err
		}
		if _, ok := s.entries[e.spec.Name]; ok {
			return nil, fmt.Errorf("two tools are named %q", e.spec.Name)
		}
		s.entries[e.spec.Name] = e
	}
	s.offer(policy)
	return s, nil
}

// offer lists what the model is offered, in an order that keeps the prefix of the prompt the same
// from call to call, so that upstream can cache it.
func (s *toolset) offer(policy *permission.Policy) {
	for name, e := range s.entries {
		if policy.Offers(name, e.spec.ReadOnly) {
			s.names = append(s.names, name)
		}
	}
	slices.Sort(s.names)
	s.offered = make([]model.Tool, len(s.names))
	for i, name := range s.names {
		spec := &s.entries[name].spec
		s.offered[i] = model.Tool{Name: name, Description: spec.Description, InputSchema: spec.InputSchema}
	}
}

// misfit says what is wrong with an input by the tool's schema, or nothing. A schema that cannot
// be used, as a server may send one, is left to the tool.
func (e *entry) misfit(input json.RawMessage) string {
	schema, err := e.schema()
	if err != nil {
		return ""
	}
	var value map[string]any
	if err := json.Unmarshal(input, &value); err != nil {
		return err.Error()
	}
	if err := schema.Validate(value); err != nil {
		return strings.TrimPrefix(err.Error(), "validating root: ")
	}
	return ""
}

// mergedTools are an engine's own tools with those of its servers.
type mergedTools struct {
	*toolset
	of [][]tool.Tool // what the servers answered
}

// with answers the engine's own tools and those of servers. Runs share one set until a server
// answers other tools.
func (e *Engine) with(lists [][]tool.Tool) *toolset {
	same := func(a, b []tool.Tool) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
	if last := e.merged.Load(); last != nil && slices.EqualFunc(last.of, lists, same) {
		return last.toolset
	}
	all := &toolset{entries: maps.Clone(e.own.entries)}
	for _, list := range lists {
		for _, t := range list {
			entry, err := newEntry(t)
			if err == nil && all.entries[entry.spec.Name] != nil {
				err = fmt.Errorf("two tools are named %q", entry.spec.Name)
			}
			if err != nil {
				e.cfg.Logger.Warn("tool of a server is left out", "err", err)
				continue
			}
			all.entries[entry.spec.Name] = entry
		}
	}
	all.offer(e.cfg.Policy)
	e.merged.Store(&mergedTools{all, lists})
	return all
}
