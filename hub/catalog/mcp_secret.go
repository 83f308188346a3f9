package catalog

import (
	"encoding/base64"
	"fmt"
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

// server returns the server with its values opened. It fails with api.Conflict if a value cannot be
// opened.
func (s *Service) server(tenantID string, v MCP) (agent.MCPServer, error) {
	server := agent.MCPServer{Transport: v.Transport, Command: v.Command, Args: v.Args, CWD: v.CWD, URL: v.URL, Sandbox: v.Sandbox}
	var err error
	if server.Env, err = s.openPairs(envColumn, tenantID, v, v.Env); err != nil {
		return agent.MCPServer{}, err
	}
	server.Headers, err = s.openPairs(headersColumn, tenantID, v, v.Headers)
	return server, err
}

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
