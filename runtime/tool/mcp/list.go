package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Limits of the tools of a server. Sizes are in bytes.
const (
	maxTools       = 1000
	maxPages       = 200
	maxCursor      = 64 << 10
	maxSchemas     = 8 << 20 // of all tools
	maxDescription = 16 << 10
	maxName        = 64
)

// spec is a tool of a server: as it is offered, and its name at the server.
type spec struct {
	tool.Spec
	remote string
}

func (a spec) same(b spec) bool {
	return a.Name == b.Name && a.remote == b.remote && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
}

// listing is the result of one listing.
type listing struct {
	specs        []spec
	leftOut      []string // a sentence for each tool that cannot be offered
	instructions string
	resources    bool // the server has resources
}

// setTools sets the tools of the server. If nothing has changed, the list stays the same. s.mu is
// held.
func (s *server) setTools(found *listing) {
	same := func(t tool.Tool, b spec) bool { return t.(*remote).spec.same(b) }
	if s.tools != nil && slices.EqualFunc(s.tools.Tools, found.specs, same) && slices.Equal(s.tools.LeftOut, found.leftOut) &&
		s.tools.Instructions == found.instructions && found.resources == (s.tools.Resources != nil) {
		return
	}

	s.tools = &tool.List{Tools: make([]tool.Tool, len(found.specs)), LeftOut: found.leftOut, Instructions: found.instructions}
	for i, v := range found.specs {
		s.tools.Tools[i] = &remote{s, v}
	}

	if found.resources {
		s.tools.Resources = s.resources
	}
}

// list returns the tools of all pages that can be offered, sorted by name.
func (s *server) list(ctx context.Context, l *link) (*listing, error) {
	l.filter.beginListing()
	c := collection{server: s.name, names: map[string]bool{}}
	offers := l.session.InitializeResult().Capabilities
	complete, err := eachPage(func(cursor string) (next string, more bool, err error) {
		page, err := do(ctx, l, func(ctx context.Context) (*sdk.ListToolsResult, error) {
			return l.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		})
		if err != nil {
			return "", false, err
		}

		for _, t := range page.Tools {
			c.add(t, l.filter.requiresTask(t.Name))
		}

		return page.NextCursor, !c.full, nil
	})
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code == jsonrpc.CodeMethodNotFound && (offers == nil || offers.Tools == nil) {
		complete, err = true, nil // the server declares that it has no tools
	}

	if err != nil {
		return nil, err
	}

	found := &listing{
		specs: c.finish(), leftOut: c.reasons, instructions: s.shownInstructions(l), resources: offers != nil && offers.Resources != nil,
	}
	if more := c.left - len(c.reasons); more > 0 {
		found.leftOut = append(found.leftOut, fmt.Sprintf("%d more tools of the MCP server %q are left out.", more, s.name))
	}

	if !complete {
		found.leftOut = append(found.leftOut, fmt.Sprintf("The MCP server %q lists more tools than can be offered; the rest is left out.", s.name))
	}

	for i, reason := range found.leftOut {
		found.leftOut[i] = s.hide(reason)
	}

	if len(found.leftOut) > 0 {
		s.log.Warn("tools of an MCP server are left out", "count", c.left, "more", !complete, "reasons", found.leftOut)
	}

	return found, nil
}

// maxInstructions bounds the instructions of a server in the system prompt, in bytes.
const maxInstructions = 16 << 10

// shownInstructions returns the instructions of the server, if its definition permits them.
func (s *server) shownInstructions(l *link) string {
	if !s.instructions {
		return ""
	}

	return excerpt.Shorten(strings.TrimSpace(strings.ToValidUTF8(l.session.InitializeResult().Instructions, "\uFFFD")), maxInstructions)
}

// collection collects the tools that can be offered.
type collection struct {
	server  string
	specs   []spec
	names   map[string]bool // of the offered tools, and the tools' own names
	mapped  []spec          // tools whose name is chosen when all other names are known
	schemas int
	full    bool     // there is no room for more tools
	left    int      // number of tools that are left out
	reasons []string // a sentence for each of the first few
}

// maxReasons limits collection.reasons. The server chooses the names in them.
const maxReasons = 8

func (c *collection) leaveOut(name, reason string) {
	if c.left++; len(c.reasons) < maxReasons {
		c.reasons = append(c.reasons, fmt.Sprintf("The tool %.80q of the MCP server %q is left out: it %s.", name, c.server, reason))
	}
}

func (c *collection) add(t *sdk.Tool, requiresTask bool) {
	if c.full {
		return
	}

	full := prefix(c.server) + t.Name
	if ui, ok := t.Meta["ui"].(map[string]any); ok {
		if visible, ok := ui["visibility"].([]any); ok && !slices.Contains(visible, any("model")) {
			return // only the user interface of the server calls it
		}
	}

	switch {
	case len(c.specs)+len(c.mapped) == maxTools:
		c.full = true
		return
	case !legalName().MatchString(t.Name):
		c.leaveOut(t.Name, "has a name that the protocol does not allow")
		return
	case c.names[full]:
		c.leaveOut(t.Name, "is listed twice")
		return
	case requiresTask:
		c.leaveOut(t.Name, "can only be called as a task, which this client does not support")
		return
	}

	schema, err := objectSchema(t.InputSchema)
	if err != nil {
		c.leaveOut(t.Name, err.Error())
		return
	}

	if c.schemas+len(schema) > maxSchemas {
		c.full = true
		return
	}

	c.schemas += len(schema)
	c.names[full] = true
	description := t.Description
	if description == "" {
		description = t.Title
	}

	offered := spec{tool.Spec{Name: full, Description: excerpt.Shorten(description, maxDescription), InputSchema: schema}, t.Name}
	if modelName().MatchString(full) {
		c.specs = append(c.specs, offered)
		return
	}

	offered.Original = full
	c.mapped = append(c.mapped, offered)
}

// finish maps the names that models do not accept, and returns all tools sorted by name.
func (c *collection) finish() []spec {
	slices.SortFunc(c.mapped, func(a, b spec) int { return strings.Compare(a.Original, b.Original) })
	for _, v := range c.mapped {
		v.Name = mappedName(c.server, v.remote)
		if c.names[v.Name] { // another tool has it
			v.Name = hashedName(c.server, v.remote)
		}

		if v.Name == "" || c.names[v.Name] {
			c.leaveOut(v.remote, "has a name for which there is no other one that models accept")
			continue
		}

		c.names[v.Name] = true
		c.specs = append(c.specs, v)
	}

	slices.SortFunc(c.specs, func(a, b spec) int { return strings.Compare(a.Name, b.Name) })
	return c.specs
}

// objectSchema returns a schema as JSON with the type object, which upstreams require. Arguments
// are always an object, so that other types of a schema have no meaning.
func objectSchema(schema any) (json.RawMessage, error) {
	m, ok := schema.(map[string]any)
	if schema == nil || schema == true { // any arguments
		m, ok = map[string]any{}, true
	}

	types, several := m["type"].([]any)
	if kind, there := m["type"]; !ok || there && kind != nil && kind != "object" && !(several && slices.Contains(types, any("object"))) {
		return nil, errors.New("has a schema that is not of type object")
	}

	m["type"] = "object"
	return json.Marshal(m)
}

// hashLength is the number of characters of a hash in a name.
const hashLength = 8

var (
	legalName = pattern.Compile(`^[A-Za-z0-9_./-]{1,128}$`) // of the protocol, for a tool
	modelName = pattern.Compile(`^[A-Za-z0-9_-]{1,64}$`)    // with the prefix of the server
)

var modelCharacters = strings.NewReplacer(".", "_", "/", "_")

// mappedName returns a name that models accept: with _ for . and /, and shortened with a hash where
// it is too long. The prefix of the server is unchanged, since permission rules match it. It
// returns "" if there is no room for a hash.
func mappedName(server, tool string) string {
	name := prefix(server) + modelCharacters.Replace(tool)
	if len(name) > maxName {
		return hashedName(server, tool)
	}

	return name
}

// hashedName is the mapped name with a hash of the tool's own name, so that no other tool has it.
func hashedName(server, tool string) string {
	room := maxName - len(prefix(server)) - hashLength - 1
	if room < 1 {
		return ""
	}

	sum := sha256.Sum256([]byte(tool))
	short := modelCharacters.Replace(tool)
	return prefix(server) + short[:min(len(short), room)] + "_" + hex.EncodeToString(sum[:])[:hashLength]
}

// maxRepaired is the number of content blocks of a result that is repaired. Each block that cannot
// be decoded takes about 20 µs.
const maxRepaired = 1000

// readable returns the result of a call with a line of text for each content block that the SDK
// cannot decode, such as an image with invalid base64. The SDK would discard the whole result, and
// the model would call the tool again. A result with more than maxRepaired blocks is unchanged.
func readable(result json.RawMessage) json.RawMessage {
	if decodes(result) {
		return result
	}

	var fields map[string]json.RawMessage
	var content []json.RawMessage
	if jsonlimit.Unmarshal(result, &fields) != nil || jsonlimit.Unmarshal(fields["content"], &content) != nil || len(content) > maxRepaired {
		return result
	}

	for i, block := range content {
		if !decodes(fmt.Appendf(nil, `{"content":[%s]}`, block)) {
			content[i] = fmt.Appendf(nil, `{"type":"text","text":"[%s that cannot be decoded]"}`, kind(block))
		}
	}

	fields["content"], _ = json.Marshal(content) //nolint:errcheck // each block is valid JSON
	repaired, err := json.Marshal(fields)
	if err != nil || !decodes(repaired) {
		return result
	}

	return repaired
}

// decodes reports whether the SDK decodes the result of a call. It panics on some results.
func decodes(result []byte) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	return json.Unmarshal(result, new(sdk.CallToolResult)) == nil
}

// kind returns the type of a content block if it is one of the protocol.
func kind(block json.RawMessage) string {
	var b struct {
		Type string `json:"type"`
	}
	if jsonlimit.Unmarshal(block, &b) == nil && slices.Contains([]string{"text", "image", "audio", "resource"}, b.Type) {
		return b.Type
	}

	return "content"
}
