package apidocs

import (
	"cmp"
	"errors"
	"html/template"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
	"go.yaml.in/yaml/v3"
)

// view is what the page shows, in the order of the document.
type view struct {
	Title, Version string
	Description    template.HTML
	Steps          []step
	Groups         []*group
	Schemas        []schema
}

// step is one of the first operations that a reader calls, from x-first-steps of the document.
type step struct {
	Operation, Text string
}

type group struct {
	Name        string
	Description template.HTML
	Operations  []operation
}

type operation struct {
	ID, Method, Path, Summary string
	Description               template.HTML
	Roles                     []string
	Parameters                []parameter
	Body                      template.HTML
	Responses                 []response
	streams                   bool   // a response is an event stream
	Example                   string // a command
}

type parameter struct {
	Name, In    string
	Required    bool
	example     string
	Description template.HTML
	Schema      template.HTML
}

type response struct {
	Status      string
	Description template.HTML
	Content     template.HTML
}

type schema struct {
	Name   string
	Source template.HTML
}

// node is a part of the document. Lookups of missing parts return the zero node.
type node struct{ *yaml.Node }

// get returns the value of a key.
func (n node) get(key string) node {
	for k, v := range n.entries() {
		if k == key {
			return v
		}
	}

	return node{}
}

// entries iterates over the keys of a mapping in their order.
func (n node) entries() func(yield func(string, node) bool) {
	return func(yield func(string, node) bool) {
		if n.Node == nil || n.Kind != yaml.MappingNode {
			return
		}

		for i := 0; i+1 < len(n.Content); i += 2 {
			v := n.Content[i+1]
			if v.Kind == yaml.AliasNode {
				v = v.Alias
			}

			if !yield(n.Content[i].Value, node{v}) {
				return
			}
		}
	}
}

func (n node) items() []node {
	if n.Node == nil || n.Kind != yaml.SequenceNode {
		return nil
	}

	var all []node
	for _, c := range n.Content {
		all = append(all, node{c})
	}

	return all
}

func (n node) text() string {
	if n.Node == nil {
		return ""
	}

	return n.Value
}

// source returns the node as YAML, in which references are links.
func (n node) source() template.HTML {
	if n.Node == nil {
		return ""
	}

	text, err := yaml.Marshal(expand(n.Node))
	if err != nil {
		return ""
	}

	return link(template.HTMLEscapeString(strings.TrimSpace(string(text))))
}

// expand returns a copy without anchors and aliases.
func expand(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return expand(n.Alias)
	}

	c := *n
	c.Anchor, c.Content = "", nil
	for _, child := range n.Content {
		c.Content = append(c.Content, expand(child))
	}

	return &c
}

// read reads the parts of the document that the page shows.
func read(source []byte) (*view, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, err
	}

	if len(document.Content) == 0 {
		return nil, errors.New("it is empty")
	}

	root := node{document.Content[0]}
	if !strings.HasPrefix(root.get("openapi").text(), "3.") {
		return nil, errors.New("it is not OpenAPI 3")
	}

	info := root.get("info")
	v := &view{Title: info.get("title").text(), Version: info.get("version").text(), Description: prose(info.get("description").text())}
	for _, tag := range root.get("tags").items() {
		v.Groups = append(v.Groups, &group{Name: tag.get("name").text(), Description: prose(tag.get("description").text())})
	}

	for _, s := range root.get("x-first-steps").items() {
		v.Steps = append(v.Steps, step{s.get("operation").text(), s.get("text").text()})
	}

	for path, item := range root.get("paths").entries() {
		for method, op := range item.entries() {
			if slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				v.add(root, item, op, operation{Method: strings.ToUpper(method), Path: path})
			}
		}
	}

	for name, s := range root.get("components").get("schemas").entries() {
		v.Schemas = append(v.Schemas, schema{name, s.source()})
	}

	slices.SortFunc(v.Schemas, func(a, b schema) int { return cmp.Compare(a.Name, b.Name) })
	return v, nil
}

// add adds an operation to the group of its first tag.
func (v *view) add(root, path, op node, o operation) {
	o.ID = op.get("operationId").text()
	o.Summary = op.get("summary").text()
	o.Description = prose(op.get("description").text())
	for _, role := range op.get("x-roles").items() {
		o.Roles = append(o.Roles, role.text())
	}

	for _, p := range slices.Concat(path.get("parameters").items(), op.get("parameters").items()) {
		p = resolve(root, p)
		o.Parameters = append(o.Parameters, parameter{
			Name: p.get("name").text(), In: p.get("in").text(), Required: p.get("required").text() == "true",
			Description: prose(p.get("description").text()), Schema: p.get("schema").source(), example: p.get("example").text(),
		})
	}

	o.Body = resolve(root, op.get("requestBody")).get("content").source()
	for status, r := range op.get("responses").entries() {
		r = resolve(root, r)
		o.Responses = append(o.Responses, response{status, prose(r.get("description").text()), r.get("content").source()})
		for media := range r.get("content").entries() {
			o.streams = o.streams || media == "text/event-stream"
		}
	}

	o.Example = curl(root, op, o)
	name := "other"
	if tags := op.get("tags").items(); len(tags) > 0 {
		name = tags[0].text()
	}

	i := slices.IndexFunc(v.Groups, func(g *group) bool { return g.Name == name })
	if i < 0 {
		i = len(v.Groups)
		v.Groups = append(v.Groups, &group{Name: name})
	}

	v.Groups[i].Operations = append(v.Groups[i].Operations, o)
}

// resolve returns the target of a reference inside the document.
func resolve(root, n node) node {
	ref, ok := strings.CutPrefix(n.get("$ref").text(), "#/")
	if !ok {
		return n
	}

	for part := range strings.SplitSeq(ref, "/") {
		root = root.get(part)
	}

	return root
}

var (
	reference = pattern.Compile(`(^|[^a-z])#/components/schemas/([A-Za-z0-9_.-]+)`) // not of another document
	mdLink    = pattern.Compile(`\[([^\]]+)\]\(#/components/schemas/([A-Za-z0-9_.-]+)\)`)
	mdCode    = pattern.Compile("`([^`]+)`")
	mdBold    = pattern.Compile(`\*\*([^*]+)\*\*`)
	blankLine = pattern.Compile(`\n\s*\n`)
)

// link replaces references in escaped text by links to the schemas of the page.
func link(escaped string) template.HTML {
	return template.HTML(reference().ReplaceAllString(escaped, `$1<a href="#schema-$2">$2</a>`)) // the text is escaped
}

// prose renders the Markdown of descriptions: paragraphs, code, bold text, and links to schemas.
func prose(text string) template.HTML {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}

	var b strings.Builder
	for _, paragraph := range blankLine().Split(text, -1) {
		p := template.HTMLEscapeString(paragraph)
		p = mdLink().ReplaceAllString(p, `<a href="#schema-$2">$1</a>`)
		p = mdBold().ReplaceAllString(p, `<strong>$1</strong>`)
		b.WriteString("<p>" + mdCode().ReplaceAllString(p, `<code>$1</code>`) + "</p>")
	}

	return template.HTML(b.String()) // the text is escaped
}
