package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

var errEmpty = syntaxErrorf(place{1, 1}, "the file is empty; at least the key agents is required")

// Parse parses and validates a configuration file. The name is only used in faults. lookup returns
// the value of an environment variable and reports whether it is set, as [os.LookupEnv] does; with
// a nil lookup no variable is set.
//
// The file is JSON if its name ends in .json or if it is a valid JSON object, otherwise YAML. JSON
// is decoded as by encoding/json. YAML can have anchors, aliases and merge keys. In both, a key
// that is unknown, repeated, null or in another letter case is a fault.
//
// In values of apiKey, baseUrl, env and headers, ${NAME} is replaced by the variable, and $${ is a
// literal ${. A variable that is not set is a fault. A variable that is empty is a fault in apiKey
// and baseUrl: otherwise a runtime could accept every caller, or an agent could use another
// address, by mistake.
//
// The error is [Faults] with all mistakes, and the file is then nil. A systemPromptFile that does
// not exist, a custom tool that does not load, and the faults of [Agent.Check] are not errors of
// Parse.
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
		if !d.reported(fault.Key) {
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
