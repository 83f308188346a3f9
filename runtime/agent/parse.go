package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

var errEmpty = syntaxErrorf(place{1, 1}, "the file is empty; it needs at least the key agents")

// Parse reads a configuration file and validates it. It is pure: name is the name of the file
// for faults, data are its bytes, and lookup gives the value of an environment variable and
// whether it is set ([os.LookupEnv] outside of tests; nil knows none).
//
// The file is JSON if its name ends in .json or if it is an object of valid JSON, else YAML.
// JSON is what encoding/json accepts, YAML may use anchors, aliases and merge keys. In both, keys
// must be written exactly, and none may be unknown, there twice, or null.
//
// In values of apiKey, baseUrl, env and headers ${NAME} is replaced by that variable, and $${
// is a literal ${. A variable that is not set is a fault; one that is set to nothing is the
// empty string, which is a fault in apiKey and baseUrl, so that an agent or a runtime is not
// left open, or sent to another address, by accident.
//
// The error is [Faults] with all that is wrong, and the file is then nil. What another file or
// the network decides is no fault of this kind: a systemPromptFile that is not there, a custom
// tool that does not load, or whatever [Agent.Check] finds.
func Parse(name string, data []byte, lookup func(string) (string, bool)) (*File, error) {
	root, err := read(name, data)
	if err != nil {
		fault := Fault{File: name, Line: 1, Message: err.Error()}
		if syntax, ok := errors.AsType[*syntaxError](err); ok {
			fault.Line, fault.Column = syntax.place.line, syntax.place.column
		}
		return nil, Faults{fault}
	}
	d := newDecoder(lookup)
	f := new(File)
	d.decode(root, f)
	faults := d.faults
	for _, fault := range f.faults(d.has) {
		if !d.told(fault.Key) {
			faults = append(faults, fault)
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
	if len(faults) > 0 {
		return nil, faults
	}
	return f, nil
}

func read(name string, data []byte) (*node, error) {
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
