package wire_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// runtimes are schemas of types of the runtime, which are compared where a type has a field of
// them.
var runtimes = []string{
	"AgentDeployment", "AgentDeploymentRequest", "AgentLimits", "AgentLimitsRequest", "ChatPart", "ChatUpload", "Sandbox", "SandboxRequest", "ServerSandbox", "ServerSandboxRequest", "Subagent", "Thinking", "ThinkingRequest",
}

// forms are schemas of other bodies than JSON, and variants are schemas of a type with fewer or
// with other required fields.
var (
	forms    = []string{"FileForm", "SkillForm", "ToolForm"}
	variants = map[string]string{
		"UnreadableError": "Error", "ValidationError": "Error", "Scene": "Scene", "ListedScene": "Scene", "SceneUpdate": "SceneRequest", "KnowledgeUpdate": "KnowledgeRequest",
		"MCPUpdate": "MCPRequest", "OAuthRequest": "OAuth", "ServerSandbox": "Sandbox",
		"ModelRequest": "Model", "ProbedModel": "Model",
		"AgentUpdate": "AgentRequest", "AgentAccessRequest": "AgentAccess", "AIGCExplicitRequest": "AIGCExplicit",
	}
)

// encoded are the kinds of types that encode themselves. "" is any kind.
var encoded = map[string]string{"Time": "string", "Amount": "number", "time.Time": "string", "KeyChange": "string", "time.Duration": "string", "json.RawMessage": "", "Head": "object", "any": ""}

// Each schema of openapi.yaml has a type of this package or of bodies with the same fields, and
// each exported struct has a schema. The test of the audit log compares the details of entries.
func TestTypesAreTheSchemas(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../openapi.yaml")
	require.NoError(t, err)
	var document struct {
		Components struct{ Schemas map[string]*schema }
	}
	require.NoError(t, yaml.Unmarshal(file, &document))
	c := comparison{schemas: document.Components.Schemas, packages: map[string]map[string]declaration{}, embedded: map[string]bool{}}
	types := maps.Clone(c.parse("."))
	maps.Copy(types, c.parse("../internal/bodies"))
	types["AIGCLabel"] = c.parse("../internal/aigc/label")["Label"]
	audit := c.parse("../../auditlog")
	types["AuditEntry"], types["AuditLine"], types["AuditHead"], types["AuditVerification"] = audit["Entry"], audit["Entry"], audit["headJSON"], audit["Verification"]
	delete(c.schemas["AuditLine"].Properties, "hash") // which Entry encodes itself
	for name, s := range c.schemas {
		d, typed := types[name]
		switch {
		case len(s.Properties) == 0, strings.HasPrefix(name, "detail."), slices.Contains(slices.Concat(forms, runtimes), name):
		case variants[name] != "":
			c.fields(name, types[variants[name]], s, true)
		case typed:
			c.fields(name, d, s, false)
		default:
			c.require(false, "%s has no type", name)
		}
	}

	for name, d := range types {
		if _, ok := d.spec.Type.(*ast.StructType); ok && d.spec.Name.IsExported() && encoded[name] == "" && !c.embedded[name] {
			c.require(c.schemas[name] != nil, "%s has no schema", name)
		}
	}

	slices.Sort(c.faults)
	require.Empty(t, strings.Join(c.faults, "\n"))
}

// schema is a schema of the document.
type schema struct {
	Ref         string `yaml:"$ref"`
	Type, Const any
	Required    []string
	Properties  map[string]*schema
	Items       *schema
	AnyOf       []*schema `yaml:"anyOf"`
	OneOf       []*schema `yaml:"oneOf"`
	AllOf       []*schema `yaml:"allOf"`
	Values      yaml.Node `yaml:"additionalProperties"`
}

// declaration is a type declaration of a package.
type declaration struct {
	spec    *ast.TypeSpec
	dir     string
	imports map[string]string // the directories of imported packages of the module, by name
}

type comparison struct {
	schemas  map[string]*schema
	packages map[string]map[string]declaration // by directory and name
	embedded map[string]bool                   // structs that are parts of others
	faults   []string
}

// shared marks a field of several types, some of which always have it.
const shared = "shared"

func (c *comparison) require(ok bool, format string, args ...any) {
	if !ok {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// parse returns the type declarations of a package.
func (c *comparison) parse(dir string) map[string]declaration {
	if types, ok := c.packages[dir]; ok {
		return types
	}

	types := map[string]declaration{}
	files, _ := filepath.Glob(dir + "/*.go")
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}

		imports := map[string]string{}
		for _, spec := range f.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			if _, inside, ok := strings.Cut(target, "/agenthost/"); ok {
				local := path.Base(target)
				if spec.Name != nil {
					local = spec.Name.Name
				}

				imports[local] = "../../" + inside
			}
		}

		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				for _, s := range g.Specs {
					types[s.(*ast.TypeSpec).Name.Name] = declaration{s.(*ast.TypeSpec), dir, imports}
				}
			}
		}
	}

	c.packages[dir] = types
	return types
}

// fields compares the fields of a type with the properties of a schema.
func (c *comparison) fields(at string, d declaration, s *schema, variant bool) {
	declared := map[string]bool{}
	c.structFields(d, func(in declaration, name, options string, kind ast.Expr) {
		declared[name] = true
		property := s.Properties[name]
		if property == nil {
			c.require(variant, "%s.%s is not in the document", at, name)
			return
		}

		optional := strings.Contains(options, "omit")
		if variant {
			return
		}

		required := slices.Contains(s.Required, name)
		c.require(optional != required || isRequest(at) && !optional || strings.Contains(options, shared), "%s.%s: optional is %t in Go only", at, name, optional)
		if strings.Contains(options, "string") {
			kind = ast.NewIdent("string")
		}

		c.kind(at+"."+name, in, kind, property)
	})
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		c.require(declared[name], "%s.%s is not a field", at, name)
	}
}

// isRequest reports whether a field is one of a request, which may have what is optional.
func isRequest(at string) bool {
	name, _, _ := strings.Cut(at, ".")
	return strings.HasSuffix(name, "Request") || strings.HasSuffix(name, "Update") || strings.HasPrefix(name, "Pushed")
}

// structFields yields the fields of a struct and of the structs that it embeds.
func (c *comparison) structFields(d declaration, yield func(in declaration, name, options string, kind ast.Expr)) {
	s, ok := d.spec.Type.(*ast.StructType)
	if !ok {
		c.structFields(c.find(d, d.spec.Type), yield)
		return
	}

	for _, f := range s.Fields.List {
		if f.Tag == nil && len(f.Names) == 0 {
			embedded := c.find(d, f.Type)
			c.embedded[embedded.spec.Name.Name] = true
			c.structFields(embedded, func(in declaration, name, options string, kind ast.Expr) { yield(in, name, options+","+shared, kind) })
			continue
		}

		tag, _ := strconv.Unquote(f.Tag.Value)
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name != "-" {
			yield(d, name, options, f.Type)
		}
	}
}

// find returns the declaration of a named type, or one without a spec.
func (c *comparison) find(d declaration, e ast.Expr) declaration {
	switch e := e.(type) {
	case *ast.Ident:
		return c.parse(d.dir)[e.Name]
	case *ast.SelectorExpr:
		if dir, ok := d.imports[e.X.(*ast.Ident).Name]; ok {
			return c.parse(dir)[e.Sel.Name]
		}
	}

	return declaration{}
}

// kind compares the type of a value with its schema.
func (c *comparison) kind(at string, d declaration, e ast.Expr, s *schema) {
	want, name := c.resolve(s)
	got := ""
	switch e := e.(type) {
	case *ast.StarExpr:
		c.kind(at, d, e.X, s)
		return
	case *ast.ArrayType:
		got = "array"
		if id, ok := e.Elt.(*ast.Ident); ok && id.Name == "byte" {
			got = "string" // in base64
		}

		if want.Items != nil {
			c.kind(at+"[]", d, e.Elt, want.Items)
		}
	case *ast.MapType:
		got = "object"
		values := &schema{}
		if want.Values.Kind == yaml.MappingNode && want.Values.Decode(values) == nil {
			c.kind(at+"{}", d, e.Value, values)
		}
	case *ast.Ident, *ast.SelectorExpr:
		text := text(e)
		kind, ok := encoded[text]
		found := c.find(d, e)
		switch {
		case ok:
			got = kind
		case found.spec == nil:
			got = basic(text)
		default:
			if _, ok := found.spec.Type.(*ast.StructType); !ok {
				c.kind(at, found, found.spec.Type, s)
				return
			}

			got = "object"
			switch {
			case len(want.Properties) == 0: // the document describes it elsewhere
			case found.dir == ".":
				c.require(name == text || variants[name] == text, "%s: %s has the schema %q", at, text, name)
			default:
				c.fields(at, found, want, variants[name] != "")
			}
		}
	}

	c.require(got == "" || want.kind() == "" || got == want.kind(), "%s: %q is %q in the document", at, got, want.kind())
}

// resolve returns a schema without references and null, and its name.
func (c *comparison) resolve(s *schema) (*schema, string) {
	if s.Ref != "" {
		name := path.Base(s.Ref)
		found, _ := c.resolve(c.schemas[name])
		return found, name
	}

	alternatives := slices.Concat(s.AnyOf, s.OneOf, s.AllOf)
	slices.SortStableFunc(alternatives, func(a, b *schema) int { return strings.Compare(b.Ref, a.Ref) }) // an object before its short form
	for _, alternative := range alternatives {
		if alternative.Type != "null" && len(s.Properties) == 0 {
			return c.resolve(alternative)
		}
	}

	return s, ""
}

// kind returns the JSON kind of a schema, or "".
func (s *schema) kind() string {
	switch kinds := s.Type.(type) {
	case string:
		return kinds
	case []any:
		for _, kind := range kinds {
			if kind != "null" {
				return kind.(string)
			}
		}
	}

	switch s.Const.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	}

	return ""
}

// basic returns the JSON kind of a basic type.
func basic(name string) string {
	switch {
	case name == "bool":
		return "boolean"
	case strings.HasPrefix(name, "float"):
		return "number"
	case strings.Contains(name, "int"):
		return "integer"
	}

	return name
}

func text(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return text(s.X) + "." + s.Sel.Name
	}

	return e.(*ast.Ident).Name
}
