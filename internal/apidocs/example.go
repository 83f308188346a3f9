package apidocs

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
	"go.yaml.in/yaml/v3"
)

// curl returns a command for an operation. Values that only the reader knows are variables of the
// shell. The options are those of curl 7.68.
func curl(root, op node, o operation) string {
	var b strings.Builder
	b.WriteString("curl")
	if o.streams {
		b.WriteString(" -N")
	}

	if o.Method != "GET" && (o.Method != "POST" || op.get("requestBody").Node == nil) {
		b.WriteString(" -X " + o.Method)
	}

	b.WriteString(credential(root, op))
	b.WriteString(body(root, resolve(root, op.get("requestBody")).get("content")))
	address := strings.TrimSuffix(first(root.get("servers")).get("url").text(), "/") + o.Path
	var query []string
	for _, p := range o.Parameters {
		switch {
		case p.In == "path":
			address = strings.ReplaceAll(address, "{"+p.Name+"}", p.value())
		case p.In == "query" && p.Required:
			query = append(query, url.QueryEscape(p.Name)+"="+p.value())
		case p.In == "header" && p.Required:
			b.WriteString(` -H "` + p.Name + `: ` + p.value() + `"`)
		}
	}

	if len(query) > 0 {
		address += "?" + strings.Join(query, "&")
	}

	return b.String() + ` "` + address + `"`
}

// credential returns the option of the first security scheme of an operation.
func credential(root, op node) string {
	security := op.get("security")
	if security.Node == nil {
		security = root.get("security")
	}

	for name := range first(security).entries() {
		scheme := root.get("components").get("securitySchemes").get(name)
		if scheme.get("type").text() == "http" {
			return ` -H "Authorization: Bearer $TOKEN"`
		}

		return ` -H "` + scheme.get("name").text() + `: $KEY"`
	}

	return ""
}

// body returns the options of a request body.
func body(root, content node) string {
	for media, m := range content.entries() {
		switch {
		case media == "multipart/form-data":
			text := ""
			for name := range resolve(root, m.get("schema")).get("properties").entries() {
				if name == "file" {
					text = ` -F "file=@$FILE"`
				}
			}

			return text
		case strings.HasSuffix(media, "json"):
			example := m.get("example").value()
			if example == nil {
				example = sample(root, m.get("schema"), 8)
			}

			text, err := json.Marshal(example)
			if err != nil {
				return ""
			}

			return " -H 'Content-Type: application/json' \\\n  -d " + quote(string(text)) + " \\\n "
		default:
			return " -H 'Content-Type: " + media + `' --data-binary "@$FILE"`
		}
	}

	return ""
}

// quote returns text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// simple is text that needs no quotes in a URL or a shell.
var simple = pattern.Compile(`^[A-Za-z0-9._-]+$`)

// value returns the example of a parameter, or a variable of the shell.
func (p parameter) value() string {
	if simple().MatchString(p.example) {
		return p.example
	}

	return "$" + strings.ToUpper(strings.NewReplacer("-", "_").Replace(p.Name))
}

// first returns the first item of a sequence.
func first(n node) node {
	if all := n.items(); len(all) > 0 {
		return all[0]
	}

	return node{}
}

// value decodes a part of the document, or returns nil if it is missing.
func (n node) value() any {
	var v any
	if n.Node == nil || n.Decode(&v) != nil {
		return nil
	}

	return v
}

// sample returns a value of a schema: its example, or its required fields. Below depth levels it is
// null, because schemas may refer to themselves.
func sample(root, s node, depth int) any {
	s = resolve(root, s)
	for _, key := range []string{"example", "const", "default"} {
		if v := s.get(key).value(); v != nil {
			return v
		}
	}

	if v := first(s.get("enum")).value(); v != nil {
		return v
	}

	if depth == 0 {
		return nil
	}

	for _, key := range []string{"oneOf", "anyOf"} {
		if choice := first(s.get(key)); choice.Node != nil && s.get("properties").Node == nil {
			return sample(root, choice, depth-1)
		}
	}

	kind := s.get("type")
	if kind.Node != nil && kind.Kind == yaml.SequenceNode {
		kind = first(kind)
	}

	switch kind.text() {
	case "string":
		return "..."
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		if s.get("minItems").text() == "" {
			return []any{}
		}

		return []any{sample(root, s.get("items"), depth-1)}
	}

	return object(root, s, depth)
}

// object returns the required fields of a schema and of those that it consists of.
func object(root, s node, depth int) map[string]any {
	all := map[string]any{}
	for _, part := range s.get("allOf").items() {
		if v, ok := sample(root, part, depth-1).(map[string]any); ok {
			maps.Copy(all, v)
		}
	}

	var required []string
	for _, name := range s.get("required").items() {
		required = append(required, name.text())
	}

	for name, property := range s.get("properties").entries() {
		if slices.Contains(required, name) {
			all[name] = sample(root, property, depth-1)
		}
	}

	return all
}
