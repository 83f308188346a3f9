package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// leaf is a value of a file. A list and a map are JSON.
type leaf struct {
	text string
	at   agent.Fault
}

// readFile reads the values of a file.
func (o *Origins) readFile(path string, all []setting) {
	known := map[string]reflect.Kind{} // of the settings by their keys
	for _, s := range all {
		if s.key == "" {
			continue // the file does not name itself
		}

		known[s.key] = s.Type.Kind()
		if s.secret() {
			known[s.key+"File"] = reflect.String
		}
	}

	root, err := parseFile(path)
	if err != nil {
		at := agent.Fault{File: path, Line: 1}
		message := err.Error()
		if m := yamlMessage().FindStringSubmatch(message); m != nil {
			at.Line, _ = strconv.Atoi(m[1])
			message = m[2]
		}

		o.add(at, "%s", message)
		return
	}

	o.file = map[string]leaf{}
	o.walk(root, agent.Fault{File: path, Line: root.Line}, known)
}

var yamlMessage = pattern.Compile(`(?s)^yaml: (?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// parseFile returns the one document of a file.
func parseFile(path string) (*yaml.Node, error) {
	data, err := ReadFile(path, MaxConfig)
	if err != nil {
		return nil, err
	}

	d := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := d.Decode(&document); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	} else if err != nil {
		return nil, err
	}

	if !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		return nil, errors.New("the file has more than one document")
	}

	return document.Content[0], document.Decode(new(map[string]any)) // which finds repeated keys
}

// walk records the value at a key, or those below it.
func (o *Origins) walk(n *yaml.Node, at agent.Fault, known map[string]reflect.Kind) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}

	kind, ok := known[at.Key]
	switch {
	case !ok && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			o.walk(n.Content[i+1], agent.Fault{File: at.File, Line: key.Line, Key: strings.TrimPrefix(at.Key+"."+key.Value, ".")}, known)
		}
	case !ok:
		o.add(at, "unknown key")
	case n.ShortTag() == "!!null":
		o.add(at, "has no value: omit the key if it is not needed")
	case n.Kind == yaml.ScalarNode:
		o.file[at.Key] = leaf{n.Value, at}
	case kind != reflect.Slice && kind != reflect.Map:
		o.add(at, "must be one value")
	default:
		var value any
		err := n.Decode(&value)
		text, jsonErr := json.Marshal(value)
		if err := errors.Join(err, jsonErr); err != nil {
			o.add(at, "%v", err)
		}

		o.file[at.Key] = leaf{string(text), at}
	}
}
