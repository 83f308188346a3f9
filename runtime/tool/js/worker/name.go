package worker

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// name parses a file and responds with the name of the tool in it. It runs nothing of the file.
func (w *worker) name(h frame.Build, source string) {
	var built frame.Built
	var err error
	if built.Name, err = nameIn(h.File, source); err != nil {
		built.Error = excerpt.Head(err.Error(), frame.MaxDefinition)
	}

	w.write(frame.KindBuilt, built, "")
}

// nameIn returns the literal text of name in the default export of a file.
func nameIn(file, source string) (string, error) {
	if _, _, err := bundle(file, source); err != nil { // an import, or syntax that cannot be compiled
		return "", err
	}

	stripped := api.Transform(source, api.TransformOptions{
		Loader: loaderOf(file), Target: api.ES2023, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		LogLevel: api.LogLevelSilent, TsconfigRaw: `{}`,
	})
	if len(stripped.Errors) > 0 {
		return "", errors.New(buildErrors(stripped.Errors, file))
	}

	tree, err := js.Parse(parse.NewInputBytes(stripped.Code), js.Options{})
	if err != nil {
		return "", fmt.Errorf("%s: the name cannot be found: %s", file, firstLine(err))
	}

	name, ok := readModule(tree).name()
	if !ok || !written(source, name) {
		return "", fmt.Errorf("%s: the name must be a literal: export default {name: \"word_count\", ...}, "+
			"or defineTool of such an object, or a constant of the file for the object or the text", file)
	}

	return name, nil
}

// written reports whether a file has a text in quotes: the compiler joins texts that are added.
func written(source, text string) bool {
	return slices.ContainsFunc([]string{`"`, "'", "`"}, func(quote string) bool { return strings.Contains(source, quote+text+quote) })
}

func loaderOf(file string) api.Loader {
	if ext := path.Ext(file); ext == ".ts" || ext == ".mts" {
		return api.LoaderTS
	}

	return api.LoaderJS
}

// firstLine returns an error without the excerpt of the source.
func firstLine(err error) string {
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	return string(line)
}

// module has the declarations at the top level of a file.
type module struct {
	exported  js.IExpr // the default export
	constants map[string]js.IExpr
	defines   map[string]bool // names of defineTool
}

func readModule(tree *js.AST) module {
	m := module{constants: map[string]js.IExpr{}, defines: map[string]bool{"defineTool": true}}
	for _, statement := range tree.List {
		switch s := statement.(type) {
		case *js.VarDecl:
			m.declare(s)
		case *js.ImportStmt:
			for _, alias := range s.List {
				if string(alias.Name) == "defineTool" {
					m.defines[string(alias.Binding)] = true
				}
			}
		case *js.ExportStmt:
			m.export(s)
		}
	}

	return m
}

func (m *module) declare(s *js.VarDecl) {
	if s.TokenType != js.ConstToken {
		return
	}

	for _, element := range s.List {
		if v, ok := element.Binding.(*js.Var); ok {
			m.constants[string(v.Name())] = element.Default
		}
	}
}

func (m *module) export(s *js.ExportStmt) {
	if declared, ok := s.Decl.(*js.VarDecl); ok {
		m.declare(declared)
	}

	if s.Default {
		m.exported = s.Decl
	}

	for _, alias := range s.List {
		if s.Module == nil && string(alias.Binding) == "default" {
			m.exported = &js.Var{Data: alias.Name}
		}
	}
}

// name returns the text of name in the default export, if it is a literal.
func (m module) name() (string, bool) {
	exported := m.resolve(m.exported)
	if call, ok := exported.(*js.CallExpr); ok {
		callee, known := call.X.(*js.Var)
		if !known || !m.defines[string(callee.Name())] || call.Optional || len(call.Args.List) != 1 || call.Args.List[0].Rest {
			return "", false
		}

		exported = m.resolve(call.Args.List[0].Value)
	}

	object, ok := exported.(*js.ObjectExpr)
	if !ok {
		return "", false
	}

	text, ok := literal(m.resolve(nameOf(object)))
	return text, ok
}

// nameOf returns the value of name in an object, or nil if it is not one value that is written
// there. The last property of a name counts.
func nameOf(object *js.ObjectExpr) js.IExpr {
	var value js.IExpr
	for _, property := range object.List {
		method, isMethod := property.Value.(*js.MethodDecl)
		key := property.Name
		if isMethod {
			key = &method.Name.PropertyName
		}

		switch {
		case property.Spread, key != nil && key.Computed != nil, key == nil:
			value = nil // it may have a name
		case string(key.Literal.Data) == "name":
			value = property.Value
		}
	}

	return value
}

// maxConstants bounds the constants that refer to each other.
const maxConstants = 100

// resolve returns the value of a constant, or the expression itself.
func (m module) resolve(e js.IExpr) js.IExpr {
	for range maxConstants {
		switch v := e.(type) {
		case *js.GroupExpr:
			e = v.X
		case *js.Var:
			e = m.constants[string(v.Name())]
		default:
			return e
		}
	}

	return nil
}

// literal returns the text of a literal. One with an escape, which no name of a tool has, is as in
// the source.
func literal(e js.IExpr) (string, bool) {
	switch v := e.(type) {
	case *js.LiteralExpr:
		if v.TokenType == js.StringToken {
			return string(v.Data[1 : len(v.Data)-1]), true
		}
	case *js.TemplateExpr:
		if v.Tag == nil && len(v.List) == 0 {
			return string(bytes.Trim(v.Tail, "`")), true
		}
	}

	return "", false
}
