// Package toolschema makes the input schema of a tool safe to use. The schema comes from an
// untrusted source: an MCP server or the file of a custom tool.
//
// # Models
//
// Anthropic and OpenAI reject a request if the schema of one of its tools breaks a rule, and so
// every request of an agent that has the tool. Gateways pass requests on to either of them, so that
// there is one set of rules, to which [Fit] converts a schema:
//
//   - The schema is of type object, has properties, and has no union, reference, enum or not at the
//     top. Fit folds them: the properties of all members are properties of the schema.
//   - The names of its properties match ^[a-zA-Z0-9_.-]{1,64}$. Fit renames others, and
//     [Fitted.Input] returns the input of a call with the original names. The APIs do not check
//     the names of nested properties.
//   - An array has items.
//   - The values of keywords have the types of draft 2020-12, and references have a target in the
//     schema. Fit removes other keywords.
//
// A converted schema accepts every input that the original accepts, with renamed properties. A
// schema that needs no change is returned unchanged. Time and memory are in proportion to the size
// of a schema.
//
// # Inputs
//
// [Budget.Compile] reads a schema and rejects one whose validation could not be bounded.
// [Schema.Validate] validates one input against the original schema, of draft 7 or 2020-12.
// References stay within the schema.
//
// Compile replaces each reference by the schema that it refers to. The validator sees only the
// result: a tree without references, ids or unknown keywords, of at most 10,000 subschemas and 100
// levels. A schema that applies itself to the same value again has no such tree and is rejected. A
// schema that applies itself to a part of the value, such as the schema of a tree, or that is too
// large, is expanded for as many levels of the value as fit. An input that is nested deeper than
// that is not validated.
//
// From the tree Compile computes the cost of one value and of one byte of input: subschemas that
// apply to the same value, entries of their keywords, and the size of their patterns. A schema
// above the limits is rejected, and Validate rejects an input whose size times these costs exceeds
// a budget of some seconds. The text of a schema has at most 256 KiB, a pattern at most 4,000
// bytes. Patterns run in linear time, as package regexp does.
//
// A [Budget] bounds the schemas of one source, such as the tools of a server, to 100,000 subschemas
// together. The subschemas of rejected schemas count too.
//
// # Outputs
//
// [CompileOutput] reads the schema of what a model returns, with the same bounds. Nothing else
// validates an output: a schema that the validator does not support is an error, and so is an
// output that is nested too deep. A schema that fits for less than four levels is rejected.
// [Subset] finds schemas that the API of a model enforces.
//
// # Other types
//
// Models send numbers, truth values and lists as texts. [Schema.Coerce] replaces a value where the
// schema does not permit its type, at every level, if there is one reading:
//
//   - A text that is JSON of a permitted type is that value: "2", "true", "[1]". "True" and "False"
//     are truth values too.
//   - A number without an exponent, or a truth value, is its text where nothing but a text, or null,
//     is permitted. A number with a zero fraction is an integer where only that is permitted.
//   - A null is the absence of a property that is not required.
//
// A text stays a text where a string is permitted, by any member of a union. A member that an
// object does not match, because of a constant or a missing property, does not count. Each value is
// replaced once: a text in a text stays one. There is no reading of an object as a text or of one
// value as a list. A result that is not valid is dropped, and the error of the input names what to
// send instead.
//
// # Bounds of a validation
//
// Validate returns when its context ends. The validator cannot be interrupted: its goroutine ends
// by itself within the budget. A panic of the validator is an error of Validate.
package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
)

// Fitted is a schema that the APIs of models accept.
type Fitted struct {
	JSON  json.RawMessage
	names map[string]string // the original names of renamed properties
}

// Fit converts a schema. An empty one is that of a tool without parameters. Fit fails for the
// schema of anything but an object.
func Fit(raw json.RawMessage) (Fitted, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}

	value, err := decode(raw)
	root, ok := value.(object)
	if err != nil || !ok {
		return Fitted{}, errors.New("it is not a JSON object")
	}

	f := fitter{root: root}
	if err := f.fold(); err != nil {
		return Fitted{}, err
	}

	f.rename()
	// References are checked when their targets are final.
	for _, f.final = range []bool{false, true} {
		if err := f.clean(f.root, maxDepth); err != nil {
			return Fitted{}, err
		}
	}

	if !f.changed {
		return Fitted{JSON: raw}, nil
	}

	text, err := encode(f.root)
	return Fitted{JSON: text, names: f.names}, err
}

// Renamed reports whether a property has another name than in the original schema.
func (s *Fitted) Renamed() bool { return len(s.names) > 0 }

// Input returns the input of a call with the original names of properties. Anything but a JSON
// object is returned unchanged.
func (s *Fitted) Input(input string) string {
	var fields map[string]json.RawMessage
	if !s.Renamed() || json.Unmarshal([]byte(input), &fields) != nil {
		return input
	}

	for name, original := range s.names {
		if value, ok := fields[name]; ok {
			delete(fields, name)
			fields[original] = value
		}
	}

	text, err := encode(fields)
	if err != nil {
		return input
	}

	return string(text)
}

// encode does not escape < > &, which would become longer.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

// fitter converts one schema.
type fitter struct {
	root    object
	names   map[string]string // see Fitted
	changed bool
	final   bool // references are checked

	// Of all members of unions at the top: the different schemas of each property in order, the
	// same as JSON after the name, and the references that were followed.
	properties map[string][]any
	known      map[string]bool
	followed   map[string]bool
}

// maxDepth bounds the nesting of a schema.
const maxDepth = 100

var errTooDeep = fmt.Errorf("it has more than %d levels", maxDepth)

// atTop are the keywords that must not be at the top of a schema. Without unevaluatedProperties the
// schema accepts what a member accepted.
var atTop = []string{"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not", "unevaluatedProperties"}

// fold removes the keywords that must not be at the top.
func (f *fitter) fold() error {
	if !mayBeObject(f.root) {
		return errors.New("it is not of type object")
	}

	_, ok := f.root["properties"].(object)
	folded := !ok || f.root["type"] != "object"
	for _, keyword := range atTop {
		_, ok := f.root[keyword]
		folded = folded || ok
	}

	if !folded {
		return nil
	}

	f.changed = true
	f.properties = map[string][]any{}
	f.known = map[string]bool{}
	f.followed = map[string]bool{}
	required, err := f.add(f.root, maxDepth)
	if err != nil {
		return err
	}

	for _, keyword := range append(atTop, "required") {
		delete(f.root, keyword)
	}

	f.root["type"] = "object"
	properties := object{}
	for name, schemas := range f.properties {
		properties[name] = schemas[0]
		if len(schemas) > 1 {
			properties[name] = object{"anyOf": schemas}
		}
	}

	f.root["properties"] = properties
	if len(required) > 0 {
		list := make([]any, 0, len(required))
		for _, name := range slices.Sorted(maps.Keys(required)) {
			list = append(list, name)
		}

		f.root["required"] = list
	}

	return nil
}

// mayBeObject reports whether the type of a schema permits an object.
func mayBeObject(s object) bool {
	types, ok := s["type"].([]any)
	return s["type"] == nil || s["type"] == "object" || ok && slices.Contains(types, any("object"))
}

// add adds the properties of a member and of its members, and returns the names of the properties
// that it requires. A reference is followed once.
func (f *fitter) add(s object, depth int) (map[string]bool, error) {
	if depth == 0 {
		return nil, errTooDeep
	}

	properties, _ := s["properties"].(object)
	for name, schema := range properties {
		text, err := encode(schema)
		if err != nil {
			return nil, err
		}

		if key := name + "\x00" + string(text); !f.known[key] {
			f.known[key] = true
			f.properties[name] = append(f.properties[name], schema)
		}
	}

	required := map[string]bool{}
	names, _ := s["required"].([]any)
	for _, name := range names {
		if name, ok := name.(string); ok {
			required[name] = true
		}
	}

	all, _ := s["allOf"].([]any)
	if ref, ok := s["$ref"].(string); ok && !f.followed[ref] {
		f.followed[ref] = true
		if target, ok := f.target(ref); ok {
			all = append(slices.Clip(all), target)
		}
	}

	for _, member := range all {
		if member, ok := member.(object); ok {
			more, err := f.add(member, depth-1)
			if err != nil {
				return nil, err
			}

			maps.Copy(required, more)
		}
	}

	var err error
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var common map[string]bool // required by every member; nil before the first
		members, _ := s[keyword].([]any)
		for _, member := range members {
			member, ok := member.(object)
			if ok && !mayBeObject(member) {
				continue
			}

			names := map[string]bool{}
			if ok {
				if names, err = f.add(member, depth-1); err != nil {
					return nil, err
				}
			}

			if common == nil {
				common = names
			}

			maps.DeleteFunc(common, func(name string, _ bool) bool { return !names[name] })
		}

		maps.Copy(required, common)
	}

	return required, nil
}

// target returns the target of a reference, which must be a path within the schema.
func (f *fitter) target(ref string) (any, bool) {
	if !strings.HasPrefix(ref, "#") {
		return nil, false
	}

	d := document{root: f.root}
	target, _, err := d.find(ref, f.root)
	return target, err == nil
}

// maxName bounds the name of a property in bytes.
const maxName = 64

var (
	validName = pattern.Compile(`^[a-zA-Z0-9_.-]{1,64}$`)
	otherRune = pattern.Compile(`[^a-zA-Z0-9_.-]`)
)

// rename renames the properties whose names the APIs reject. The description of each begins with
// the original name, which the description of the tool may mention.
func (f *fitter) rename() {
	properties := f.root["properties"].(object)
	suffixes := map[string]int{} // the last one of each name
	for _, original := range slices.Sorted(maps.Keys(properties)) {
		if validName().MatchString(original) {
			continue
		}

		if f.names == nil {
			f.names = map[string]string{}
		}

		base := otherRune().ReplaceAllString(original, "_")
		base = base[:min(len(base), maxName)]
		name := base
		for {
			_, used := properties[name]
			_, given := f.names[name]
			if name != "" && !used && !given {
				break
			}

			suffixes[base]++
			suffix := "_" + strconv.Itoa(suffixes[base]+1)
			name = base[:min(len(base), maxName-len(suffix))] + suffix
		}

		f.names[name] = original
	}

	if f.names == nil {
		return
	}

	f.changed = true
	// These keywords name properties too.
	for _, keyword := range []string{"propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "if", "then", "else"} {
		delete(f.root, keyword)
	}

	required, _ := f.root["required"].([]any)
	for name, original := range f.names {
		schema := properties[original]
		if s, ok := schema.(object); ok {
			s = maps.Clone(s)
			text, _ := s["description"].(string)
			s["description"] = strings.TrimSpace(strconv.Quote(original) + ". " + text)
			schema = s
		}

		delete(properties, original)
		properties[name] = schema
		for i := range required {
			if required[i] == original {
				required[i] = name
			}
		}
	}
}
