package chaos_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// names are the names and ids in responses, by their kind: tool for those of /api/v1/admin/tools.
type names struct {
	hidden []string // which no request has, except by chance

	mu    sync.Mutex // guards the fields below
	known map[string][]string
	fixed map[string]int // of each kind, how many of the first ones remain known
}

func newNames() *names { return &names{known: map[string][]string{}, fixed: map[string]int{}} }

// kindOf returns the kind of a segment of a path, or of a field; "" for id and name.
func kindOf(name string) string {
	if name == "id" || name == "name" {
		return ""
	}
	for _, suffix := range []string{"Id", "Ids", "Name", "Names"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return strings.TrimSuffix(strings.ToLower(name), "s")
}

// kindOfPath returns the kind of the last segment of a path that is no parameter. The sessions of
// chats are not those of users.
func kindOfPath(path string) string {
	if strings.HasSuffix(strings.TrimSuffix(path, "/{id}"), "/chat/sessions") {
		return "chat"
	}
	segments := strings.Split(path, "/")
	for _, segment := range slices.Backward(segments) {
		if !strings.HasPrefix(segment, "{") {
			return kindOf(segment)
		}
	}
	return ""
}

// keep adds names that remain known, and are not deleted.
func (n *names) keep(kind string, all ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[kind] = slices.Concat(all, n.known[kind])
	n.fixed[kind] += len(all)
}

// learn adds names, in place of others if there are many.
func (n *names) learn(r *rand.Rand, kind string, all ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range all {
		known := n.known[kind]
		switch {
		case name == "" || len(name) > 200 || slices.Contains(known, name) || slices.Contains(n.hidden, name):
		case len(known) < 40:
			n.known[kind] = append(known, name)
		default:
			known[n.fixed[kind]+r.IntN(len(known)-n.fixed[kind])] = name
		}
	}
}

// kept reports whether a name is one of keep.
func (n *names) kept(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for kind, fixed := range n.fixed {
		if slices.Contains(n.known[kind][:fixed], name) {
			return true
		}
	}
	return false
}

// one returns a name of a kind, or seldom another one.
func (n *names) one(r *rand.Rand, kind string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.known[kind]
	if len(known) == 0 || r.IntN(10) == 0 {
		if all := slices.Sorted(maps.Keys(n.known)); len(all) > 0 {
			known = n.known[all[r.IntN(len(all))]]
		}
	}
	if fixed := n.fixed[kind]; fixed > 0 && r.IntN(2) == 0 {
		known = n.known[kind][:fixed]
	}
	if len(known) == 0 || r.IntN(10) == 0 {
		return fmt.Sprintf("n%x", r.IntN(1<<16))
	}
	return known[r.IntN(len(known))]
}

// generator makes the values of a request.
type generator struct {
	*rand.Rand
	names *names
	wild  bool   // some values are not as their schemas say
	kind  string // of the request
}

// hostile are values that no field expects. Addresses are only of loopback.
var hostile = []any{
	nil, "", " ", "\x00", "a\u0000b", "..", "../../etc/passwd", "/", "%2e%2e%2f", "ÿ", "\U0001f4a5", "\u202e", "'; --", "<script>", "${x}", "*", "-1", "0",
	strings.Repeat("x", 5000), strings.Repeat("é", 300), -1, 0, 1, 1 << 53, 9.3e18, -9.3e18, 1e300, 0.5, true, []any{}, []any{[]any{[]any{}}}, object{}, object{"": nil},
	"9223372036854775808", "18446744073709551616", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "http://127.0.0.1:1/x", "http://[::1", "file:///etc/passwd",
}

// value returns a value of a schema, for the field or the parameter with a name.
func (g *generator) value(ref *openapi3.SchemaRef, name string, depth int) any {
	if g.wild && g.IntN(12) == 0 || ref == nil || ref.Value == nil || depth > 6 {
		return hostile[g.IntN(len(hostile))]
	}
	s := ref.Value
	if len(s.Properties) == 0 {
		if one := slices.Concat(s.OneOf, s.AnyOf); len(one) > 0 {
			return g.value(one[g.IntN(len(one))], name, depth+1)
		}
	}
	if len(s.Enum) > 0 {
		return s.Enum[g.IntN(len(s.Enum))]
	}
	switch {
	case len(s.Properties) > 0 || len(s.AllOf) > 0 || s.Type != nil && s.Type.Includes("object"):
		return g.object(s, depth)
	case s.Type == nil:
		return hostile[g.IntN(len(hostile))]
	case s.Type.Includes("array"):
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(s.Items, name, depth+1))
		}
		return list
	case s.Type.Includes("boolean"):
		return g.IntN(2) == 0
	}
	for range 30 {
		if v := g.leaf(s, name); s.VisitJSON(v) == nil {
			return v
		}
	}
	return g.leaf(s, name)
}

func (g *generator) object(s *openapi3.Schema, depth int) object {
	out := object{}
	for _, part := range slices.Concat(s.AllOf, openapi3.SchemaRefs{{Value: s}}) {
		properties, required := part.Value.Properties, part.Value.Required
		if some := slices.Concat(part.Value.AnyOf, part.Value.OneOf); len(some) > 0 && len(properties) > 0 {
			required = slices.Concat(required, some[g.IntN(len(some))].Value.Required)
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, name) && !(g.wild && g.IntN(30) == 0) || g.IntN(4) == 0 {
				out[name] = g.value(properties[name], name, depth+1)
			}
		}
		if extra := part.Value.AdditionalProperties.Schema; extra != nil {
			for range g.IntN(3) {
				out[g.names.one(g.Rand, "")] = g.value(extra, "", depth+1)
			}
		}
	}
	if g.wild && g.IntN(20) == 0 {
		out[g.names.one(g.Rand, "")] = hostile[g.IntN(len(hostile))]
	}
	return out
}

// leaf returns a number or a text, which is perhaps one of the schema.
func (g *generator) leaf(s *openapi3.Schema, name string) any {
	if s.Type.Includes("integer") || s.Type.Includes("number") {
		numbers := []float64{1, 0, 2, 7, 100, float64(g.IntN(1 << 30)), -1, 0.25}
		for _, bound := range []*float64{s.Min, s.Max} {
			if bound != nil {
				numbers = append(numbers, *bound)
			}
		}
		return numbers[g.IntN(len(numbers))]
	}
	now := time.Now().UTC().Add(time.Duration(g.IntN(1000)-500) * time.Hour)
	switch {
	case s.Format == "date-time":
		return now.Format(time.RFC3339)
	case s.Format == "uri":
		return "http://127.0.0.1:1/" + fmt.Sprint(g.IntN(9))
	case g.IntN(3) > 0 && (name != "name" || g.IntN(2) == 0): // the name of a new one
		return g.names.one(g.Rand, cmp.Or(kindOf(name), g.kind))
	}
	texts := []string{
		fmt.Sprintf("n%x", g.IntN(1<<16)), fmt.Sprintf("tool_%x", g.IntN(1<<16)), "A text with words.", "chat-RANDOM#1", "http://127.0.0.1:1/x", "1h", "10s", "512Mi", "0.5",
		now.Format(time.RFC3339), now.Format(time.DateOnly), fmt.Sprint(g.IntN(100)), "en", password, "0123456789abcdef", "Bash(ls:*)", "a/b.txt",
		fmt.Sprintf("%08x-0000-4000-8000-%012x", g.Uint32(), g.Uint32()), strings.Repeat("0123456789abcdef", 4), "1:" + strings.Repeat("0123456789abcdef", 4),
	}
	return texts[g.IntN(len(texts))]
}

// file returns a form with a file.
func (g *generator) file(schema *openapi3.SchemaRef) string {
	name := fmt.Sprintf("file_%x", g.IntN(1<<16))
	files := map[string]string{
		name + ".ts": fmt.Sprintf("export default {name: %q, description: \"d\", inputSchema: {type: \"object\"}, call() { return 1 }}\n", name),
		"SKILL.md":   "---\nname: " + strings.ReplaceAll(name, "_", "-") + "\ndescription: d\n---\nText.\n",
		"s.zip":      "PK\x05\x06" + strings.Repeat("\x00", 18),
		"":           "x",
		"../x.js":    string(must(json.Marshal(g.value(schema, "", 0)))),
	}
	all := slices.Sorted(maps.Keys(files))
	switch {
	case !g.wild && g.kind == "tool":
		all = []string{name + ".ts"}
	case !g.wild && g.kind == "skill":
		all = []string{"SKILL.md"}
	}
	chosen := all[g.IntN(len(all))]
	return string(fileUpload(chosen, files[chosen]))
}
