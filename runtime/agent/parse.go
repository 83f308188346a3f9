package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

var errEmpty = syntaxErrorf(place{1, 1}, "the file is empty; at least the key agents is required")

// Parse parses and validates a configuration file. The name is only used in faults. lookup returns
// the value of an environment variable and reports whether it is set, as [os.LookupEnv] does. With
// a nil lookup no variable is set, and only secrets have variables. A value that lookup returns for
// a variable that is not set is used if the variable has no default.
//
// The file is JSON if its name ends in .json or if it is a valid JSON object, otherwise YAML. JSON
// is decoded as by encoding/json. YAML can have anchors, aliases and merge keys. In both, a key
// that is unknown, repeated, null or in another letter case is a fault.
//
// In values of apiKey, baseUrl, bus, env and headers, and in command, args, cwd and url of an MCP
// server, ${NAME} is replaced by the variable, and $${ is a literal ${. In an MCP server,
// ${NAME:-default} has a default, and ${env:NAME} in command, args and cwd is a variable of its
// env, which is replaced when the server starts. A variable that is not set is a fault. A variable
// that is empty is a fault in apiKey and baseUrl: otherwise a runtime could accept every caller, or
// an agent could use another address, by mistake.
//
// The error is [Faults] with all mistakes, and the file is then nil. A systemPromptFile that does
// not exist and a custom tool that does not load are not errors of Parse. Nor are the faults of
// [Agent.Check], unless there are others.
func Parse(name string, data []byte, lookup func(string) (string, bool)) (*File, error) {
	f, err := parse(name, data, lookup, func(*yaml.Node) error { return nil }, (*File).unavailable)
	if err != nil {
		return nil, err
	}

	return f, nil
}

// Limits of a file or a form of an author who is not trusted.
const (
	maxValues = 20_000
	maxKey    = 256 // bytes
	maxFaults = 100
)

// ParseOne is Parse for a file of an author who is not trusted. It has one agent, at most 20,000
// values, which are counted with those of aliases, keys of at most 256 bytes, and no U+0000. Of the
// faults, the first 100 are returned. With them, it returns what could be decoded, so that the
// caller can find further faults, or nil for a file that is not one of agents.
func ParseOne(name string, data []byte, lookup func(string) (string, bool)) (*File, error) {
	f, err := parse(name, data, lookup, checkImport, nil)
	if f != nil && len(f.Agents) != 1 {
		f = nil
	}

	if faults, ok := errors.AsType[Faults](err); ok && len(faults) > maxFaults {
		err = faults[:maxFaults:maxFaults]
	}

	return f, err
}

// DecodeForm decodes a JSON object of an API into a struct with types of this package, which it may
// embed. As with encoding/json, unknown keys and null change nothing. A Secret is taken literally.
// The error is [Faults] with the first 100 keys that are repeated or have a value of a wrong type;
// the others are decoded. Data of more than 20,000 values, or with a key of more than 256 bytes, is
// not decoded.
func DecodeForm(data []byte, into any) error {
	if err := checkForm(data); err != nil {
		return err
	}

	root, err := readJSON(data)
	if err != nil {
		return err
	}

	d := newDecoder(nil)
	d.form = true
	d.fields(root, reflect.ValueOf(into).Elem(), "")
	for i := range d.faults {
		d.faults[i].Line, d.faults[i].Column = 0, 0
	}

	return d.faults.err()
}

// checkForm checks what makes the rest of decoding expensive, before memory is needed for it.
func checkForm(data []byte) error {
	if (jsonlimit.Limit{Values: maxValues}).Check(data) != nil {
		return Faults{{Message: fmt.Sprintf("must have at most %d values", maxValues)}}
	}

	return nil
}

// checkImport checks what makes the rest of parsing expensive.
func checkImport(root *yaml.Node) error {
	values := 0
	for stack := []*yaml.Node{root}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if strings.ContainsRune(n.Value, 0) {
			return syntaxErrorf(placeOf(n), "the text must not have the character U+0000")
		}

		if values++; values > maxValues+1 {
			return syntaxErrorf(placeOf(n), "the file has more than %d values", maxValues)
		}

		for i, c := range n.Content {
			if n.Kind != yaml.MappingNode || i%2 == 1 {
				stack = append(stack, c)
				continue
			}

			if len(c.Value) > maxKey || strings.ContainsRune(c.Value, 0) {
				return syntaxErrorf(placeOf(c), "a key must have at most %d bytes, and not the character U+0000", maxKey)
			}

			if list := n.Content[i+1]; n == root && c.Value == "agents" && kindOf(list) == kindList && len(list.Content) != 1 {
				return Faults{{
					Line: list.Line, Column: list.Column, Key: "agents",
					Message: fmt.Sprintf("must have one agent, not %d", len(list.Content)),
				}}
			}
		}
	}

	return nil
}

// unavailable returns the reasons why agents of the file are unavailable.
func (f *File) unavailable() Faults {
	var all Faults
	for i := range f.Agents {
		faults, _ := errors.AsType[Faults](f.Agents[i].Check())
		for _, fault := range faults {
			all.add(element("agents", i)+"."+fault.Key, "%s", fault.Message)
		}
	}

	return all
}

// parse returns the file as far as it could be decoded, and its faults. If there are some, those of
// further are added, which may be nil.
func parse(name string, data []byte, lookup func(string) (string, bool), check func(*yaml.Node) error, further func(*File) Faults) (*File, error) {
	root, err := read(name, data)
	if err == nil {
		err = check(root)
	}

	if err != nil {
		if faults, ok := errors.AsType[Faults](err); ok {
			faults[0].File = name
			return nil, faults
		}

		fault := Fault{File: name, Line: 1, Message: err.Error()}
		if syntax, ok := errors.AsType[*syntaxError](err); ok {
			fault.Line, fault.Column = syntax.place.line, syntax.place.column
		}

		return nil, Faults{fault}
	}

	d := newDecoder(lookup)
	d.expands = lookup != nil && further != nil // not in a file of a deployment or of another author
	f := new(File)
	d.decode(root, f)
	faults := d.faults
	for _, fault := range f.faults(d.has) {
		if !d.reported(fault.Key) {
			faults = append(faults, fault)
		}
	}

	if len(faults) > 0 && further != nil {
		for _, fault := range further(f) {
			known := func(other Fault) bool { // of the value, or of one that it is part of
				rest, part := strings.CutPrefix(fault.Key, other.Key)
				return part && (rest == "" || rest[0] == '.' || rest[0] == '[')
			}
			if !slices.ContainsFunc(faults, known) {
				faults = append(faults, fault)
			}
		}
	}

	for i := range faults {
		at := d.place(faults[i].Key)
		if faults[i].Line > 0 {
			at = place{faults[i].Line, faults[i].Column}
		}

		faults[i].File, faults[i].Line, faults[i].Column = name, at.line, at.column
	}

	faults.sort()
	return f, faults.err()
}

func read(name string, data []byte) (*yaml.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(trimmed) == 0:
		return nil, errEmpty
	case !utf8.Valid(data):
		valid := len(data) - len(bytes.TrimLeftFunc(data, func(c rune) bool { return c != utf8.RuneError }))
		start := cursor{data: data, place: place{1, 1}}
		return nil, syntaxErrorf(start.to(valid), "not UTF-8")
	case strings.EqualFold(filepath.Ext(name), ".json"), trimmed[0] == '{' && json.Valid(data):
		return readJSON(data)
	}

	return readYAML(data)
}
