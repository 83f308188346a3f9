package catalog

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// checkSandbox checks the characters of a sandbox; the runtime's own rules check the rest. It
// returns a copy with nil for empty lists.
func checkSandbox(fields api.Fields, s agent.Sandbox) agent.Sandbox {
	checked := func(name string, list []string) []string {
		if len(list) == 0 {
			return nil
		}
		list = slices.Clone(list)
		for i := range min(len(list), maxList) {
			list[i] = fields.Line(index("sandbox."+name, i), list[i], 0, maxCommand)
		}
		return list
	}
	s.Read = checked("read", s.Read)
	s.Write = checked("write", s.Write)
	s.Domains = checked("domains", s.Domains)
	return s
}

// encodeSandbox returns the text of a column: "" for the defaults.
func encodeSandbox(s agent.Sandbox) (string, error) {
	if reflect.ValueOf(s).IsZero() {
		return "", nil
	}
	text, err := json.Marshal(s)
	return string(text), err
}

func decodeSandbox(text string, s *agent.Sandbox) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), s)
}

// sandboxLines returns the fields of a sandbox for the audit log, such as "read: /srv".
func sandboxLines(s agent.Sandbox) []string {
	lines := []string{}
	add := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				lines = append(lines, name+": "+value)
			}
		}
	}
	add("mode", s.Mode)
	add("network", s.Network)
	add("read", s.Read...)
	add("write", s.Write...)
	add("domains", s.Domains...)
	return lines
}
