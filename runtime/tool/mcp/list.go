package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// What a server may offer. Sizes are in bytes.
const (
	maxTools       = 1000
	maxPages       = 200
	maxCursor      = 64 << 10
	maxSchemas     = 8 << 20 // all together
	maxDescription = 16 << 10
	maxName        = 64
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// spec is one tool of a server: how it is offered, and its name there.
type spec struct {
	tool.Spec
	remote string
}

func (a spec) same(b spec) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
}

// adopt makes specs the tools of the server; the slice stays where nothing has changed. s.mu is held.
func (s *server) adopt(specs []spec) {
	if s.tools != nil && slices.EqualFunc(s.tools, specs, func(t tool.Tool, b spec) bool { return t.(*remote).spec.same(b) }) {
		return
	}
	s.tools = make([]tool.Tool, len(specs))
	for i, v := range specs {
		s.tools[i] = &remote{s, v}
	}
}

// list asks for all pages of tools and keeps those that can be offered, by name.
func (s *server) list(ctx context.Context, l *link) ([]spec, error) {
	k := keeper{server: s.name}
	cursors := map[string]bool{"": true}
	for cursor := ""; ; {
		page, err := do(ctx, l, func(ctx context.Context) (*sdk.ListToolsResult, error) {
			return l.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		})
		if err != nil {
			answer, ok := errors.AsType[*jsonrpc.Error](err)
			caps := l.session.InitializeResult().Capabilities
			if ok && answer.Code == jsonrpc.CodeMethodNotFound && (caps == nil || caps.Tools == nil) {
				return nil, nil // it has none and says so
			}
			return nil, err
		}
		for _, t := range page.Tools {
			k.add(t)
		}
		cursor = page.NextCursor
		if cursor == "" || k.full {
			break
		}
		if cursors[cursor] || len(cursors) >= maxPages || len(cursor) > maxCursor {
			k.refuse("", "the list does not come to an end")
			break
		}
		cursors[cursor] = true
	}
	if k.refused > 0 || k.full {
		s.log.Warn("tools of an MCP server are left out", "count", k.refused, "more", k.full, "reasons", k.reasons)
	}
	slices.SortFunc(k.specs, func(a, b spec) int { return strings.Compare(a.Name, b.Name) })
	return k.specs, nil
}

// keeper gathers the tools that can be offered.
type keeper struct {
	server  string
	specs   []spec
	names   map[string]bool
	schemas int
	full    bool     // there is no room for what follows
	refused int      // and why, for the first few of them
	reasons []string // bounded: the names are a stranger's words
}

func (k *keeper) refuse(name, reason string) {
	if k.refused++; len(k.reasons) < 10 {
		k.reasons = append(k.reasons, fmt.Sprintf("%.80q %s", name, reason))
	}
}

func (k *keeper) add(t *sdk.Tool) {
	if k.full {
		return
	}
	name := prefix(k.server) + t.Name
	switch {
	case len(k.specs) == maxTools:
		k.full = true
		return
	case t.Name == "" || !toolName.MatchString(name):
		k.refuse(t.Name, "has a name that models do not take")
		return
	case k.names[name]:
		k.refuse(t.Name, "is there twice")
		return
	}
	schema, err := objectSchema(t.InputSchema)
	if err != nil {
		k.refuse(t.Name, err.Error())
		return
	}
	if k.schemas+len(schema) > maxSchemas {
		k.full = true
		return
	}
	k.schemas += len(schema)
	if k.names == nil {
		k.names = map[string]bool{}
	}
	k.names[name] = true
	description := t.Description
	if description == "" {
		description = t.Title
	}
	offered := tool.Spec{Name: name, Description: clip(description, maxDescription), InputSchema: schema}
	k.specs = append(k.specs, spec{offered, t.Name})
}

// objectSchema answers a schema as JSON. Arguments are always an object, so that one without a type is one of an object;
// upstreams want to read that.
func objectSchema(schema any) (json.RawMessage, error) {
	m, ok := schema.(map[string]any)
	if schema == nil {
		m, ok = map[string]any{}, true
	}
	if kind, there := m["type"]; !ok || there && kind != "object" {
		return nil, errors.New("has a schema that is not one of an object")
	}
	m["type"] = "object"
	return json.Marshal(m)
}
