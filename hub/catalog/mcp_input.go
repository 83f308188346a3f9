package catalog

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The names and values of header fields (RFC 9110, sections 5.1 and 5.5), without obsolete text.
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
	headerValue = regexp.MustCompile(`^[\t -~]*$`)
)

// checkServerName checks a name by the runtime's rule for the names of MCP servers.
func checkServerName(fields api.Fields, field, name string) {
	if len(name) == 0 || len(name) > 63 {
		fields.Add(field, "must have 1 to 63 characters")
		return
	}
	checkServer(fields, name, agent.MCPServer{Transport: agent.TransportStdio, Command: "c"}, field)
}

// checkServer checks a server by the rules of the runtime. The names of the faults are those of the
// fields of the server, or field if that is not empty.
func checkServer(fields api.Fields, name string, server agent.MCPServer, field string) {
	probe := agent.Agent{
		ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}, MCPServers: map[string]agent.MCPServer{name: server},
	}
	faults, _ := errors.AsType[agent.Faults](probe.Validate())
	unusable, _ := errors.AsType[agent.Faults](probe.Check())
	for _, f := range slices.Concat(faults, unusable) {
		key := field
		if key == "" {
			key = strings.TrimPrefix(f.Key, "mcpServers."+name+".")
		}
		fields.Add(key, f.Message)
	}
}

func checkArgs(fields api.Fields, args []string) []string {
	if len(args) > maxList {
		fields.Add("args", fmt.Sprintf("must have at most %d elements", maxList))
		return nil
	}
	for i, arg := range args {
		if len(arg) > maxCommand || strings.ContainsRune(arg, 0) {
			fields.Add(index("args", i), fmt.Sprintf("must have at most %d bytes, and not U+0000", maxCommand))
		}
	}
	return append([]string{}, args...)
}

// checkPairs checks an environment or headers, and returns a copy with canonical names of headers.
// Messages never contain a value.
func checkPairs(fields api.Fields, field string, pairs map[string]string) map[string]string {
	if len(pairs) > maxPairs {
		fields.Add(field, fmt.Sprintf("must have at most %d elements", maxPairs))
		return nil
	}
	checked := make(map[string]string, len(pairs))
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		value, at := pairs[name], field+"."+name
		isHeader := field == "headers"
		if isHeader && !headerName.MatchString(name) || !isHeader && !validVariable(name) {
			fields.Add(field, quote(name)+" is not a valid name")
			continue
		}
		if isHeader {
			name = http.CanonicalHeaderKey(name)
		}
		if len(value) > maxValue || strings.ContainsRune(value, 0) || isHeader && !headerValue.MatchString(value) {
			fields.Add(at, fmt.Sprintf("must have at most %d bytes and no control characters", maxValue))
		}
		if _, repeated := checked[name]; repeated {
			fields.Add(at, "must not occur twice")
		}
		checked[name] = value
	}
	return checked
}

// validVariable reports whether name can be that of an environment variable.
func validVariable(name string) bool {
	return name != "" && len(name) <= maxTitle && !strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == '=' })
}

func secrets(pairs map[string]string) map[string]agent.Secret {
	if len(pairs) == 0 {
		return nil
	}
	all := make(map[string]agent.Secret, len(pairs))
	for name, value := range pairs {
		all[name] = agent.Secret(value)
	}
	return all
}

// names returns the names of an environment or of headers, sorted.
func names(pairs map[string]string) []string {
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(pairs))))
}
