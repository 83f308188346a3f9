package catalog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Values of environments and headers are sealed one by one, bound to their tenant, server and name,
// so that their names can be listed without the key. Earlier versions did not bind them to the
// tenant.
var (
	envColumn     = store.Sealed{Table: "mcps", Column: "env", ID: "id", Bound: []string{"tenant_id"}, Named: true, Unbound: true, Advice: setAgain}
	headersColumn = store.Sealed{Table: "mcps", Column: "headers", ID: "id", Bound: []string{"tenant_id"}, Named: true, Unbound: true, Advice: setAgain}
)

const setAgain = "set the value of the MCP server again"

// Sealed are the columns with secrets, for [store.Store.Reseal] and [store.Store.Rebind].
func Sealed() []store.Sealed { return []store.Sealed{envColumn, headersColumn} }

// seal replaces the values of v by sealed ones. A value that is Masked or equal to the stored one
// is the stored one.
func (s *Service) seal(tenantID string, v *MCP, stored MCP) error {
	fields := api.Fields{}
	v.Env = s.sealPairs(fields, envColumn, tenantID, v.ID, v.Env, stored.Env)
	v.Headers = s.sealPairs(fields, headersColumn, tenantID, v.ID, v.Headers, stored.Headers)
	total := 0
	for _, arg := range v.Args {
		total += len(arg)
	}
	for _, pairs := range []map[string]string{v.Env, v.Headers} {
		for name, sealed := range pairs {
			total += len(name) + base64.StdEncoding.DecodedLen(len(sealed)) - strings.Count(sealed, "=") - secret.Overhead
		}
	}
	if total > maxValues {
		fields.Add("server", fmt.Sprintf("must have at most %d bytes of arguments, environment and headers", maxValues))
	}
	return fields.Err()
}

func (s *Service) sealPairs(fields api.Fields, column store.Sealed, tenantID, id string, pairs, stored map[string]string) map[string]string {
	sealed := make(map[string]string, len(pairs))
	for name, value := range pairs {
		before, ok := stored[name]
		if value == Masked {
			if !ok {
				fields.Add(column.Column+"."+name, "has no stored value that "+Masked+" could stand for")
			}
			sealed[name] = before
			continue
		}
		if ok {
			if plain, err := s.openPair(column.NamedPlace(name, id, tenantID), before); err == nil && plain == value {
				sealed[name] = before
				continue
			}
		}
		sealed[name] = base64.StdEncoding.EncodeToString(s.store.Keyring.Seal([]byte(value), column.NamedPlace(name, id, tenantID)))
	}
	return sealed
}

func (s *Service) openPair(place []byte, sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return "", fmt.Errorf("decode sealed value: %w", err)
	}
	plain, err := s.store.Keyring.Open(raw, place)
	return string(plain), err
}

// openPairs opens an environment or headers. It fails with api.Conflict if a value cannot be opened.
func (s *Service) openPairs(column store.Sealed, tenantID string, v MCP, pairs map[string]string) (map[string]agent.Secret, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	opened := make(map[string]agent.Secret, len(pairs))
	for name, sealed := range pairs {
		plain, err := s.openPair(column.NamedPlace(name, v.ID, tenantID), sealed)
		if err != nil {
			return nil, &api.Error{
				Code: api.Conflict, Cause: err,
				Message: "The value " + column.Column + "." + name + " of MCP server " + v.Name + " cannot be decrypted: set it again.",
			}
		}
		opened[name] = agent.Secret(plain)
	}
	return opened, nil
}

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
