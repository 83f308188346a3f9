package catalog

import (
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/settings"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Secrets of servers are sealed one by one, bound to their tenant, server and name, so that their
// names can be listed without the key. Earlier versions did not bind those of environments and
// headers to the tenant.
var (
	envColumn     = store.Sealed{Table: "mcps", Column: "env", ID: "id", Bound: []string{"tenant_id"}, Named: true, Unbound: true, Advice: setAgain}
	headersColumn = store.Sealed{Table: "mcps", Column: "headers", ID: "id", Bound: []string{"tenant_id"}, Named: true, Unbound: true, Advice: setAgain}
	secretsColumn = store.Sealed{Table: "mcps", Column: "secrets", ID: "id", Bound: []string{"tenant_id"}, Named: true, Advice: setAgain}
)

const setAgain = "set the value of the MCP server again"

// Sealed are the columns with secrets, for [store.Store.Reseal] and [store.Store.Rebind].
func Sealed() []store.Sealed { return []store.Sealed{envColumn, headersColumn, secretsColumn} }

// placeOf returns the place of the secret with a key of [settings.Replace].
func placeOf(tenantID, id, key string) []byte {
	if name, ok := strings.CutPrefix(key, "env."); ok {
		return envColumn.NamedPlace(name, id, tenantID)
	}
	if name, ok := strings.CutPrefix(key, "headers."); ok {
		return headersColumn.NamedPlace(name, id, tenantID)
	}
	return secretsColumn.NamedPlace(key, id, tenantID)
}

// seal replaces the secrets of v by sealed ones. A secret that is Masked or equal to the stored one
// is the stored one.
func (s *Service) seal(tenantID string, v *MCP, stored MCP) error {
	fields := api.Fields{}
	total := 0
	for _, arg := range v.Args {
		total += len(arg)
	}
	size := func(key string) int { return len(key) - strings.IndexByte(key, '.') - 1 } // without env. or headers.
	known := settings.Secrets(stored.MCPServer)
	v.MCPServer = settings.Replace(v.MCPServer, func(key, value string) string {
		place := placeOf(tenantID, v.ID, key)
		before, ok := known[key]
		plain, err := s.openSecret(place, before)
		if value == settings.Masked && !ok {
			fields.Add(key, "has no stored value that "+settings.Masked+" could stand for")
			return ""
		}
		if value == settings.Masked || ok && err == nil && plain == value {
			total += size(key) + len(plain)
			return before
		}
		total += size(key) + len(value)
		return base64.StdEncoding.EncodeToString(s.store.Keyring.Seal([]byte(value), place))
	})
	if total > maxValues {
		fields.Add("server", fmt.Sprintf("must have at most %d bytes of arguments, environment, headers and other secrets", maxValues))
	}
	return fields.Err()
}

func (s *Service) openSecret(place []byte, sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return "", fmt.Errorf("decode sealed value: %w", err)
	}
	plain, err := s.store.Keyring.Open(raw, place)
	return string(plain), err
}

// openServer returns a server as the runtime has it. It fails with api.Conflict if a secret cannot
// be opened.
func (s *Service) openServer(tenantID string, v MCP) (agent.MCPServer, error) {
	var failed error
	server := v.MCPServer
	if len(server.Env) == 0 {
		server.Env = nil
	}
	if len(server.Headers) == 0 {
		server.Headers = nil
	}
	server = settings.Replace(server, func(key, sealed string) string {
		plain, err := s.openSecret(placeOf(tenantID, v.ID, key), sealed)
		if err != nil {
			failed = &api.Error{
				Code: api.Conflict, Cause: err, Message: "The value " + key + " of MCP server " + v.Name + " cannot be decrypted: set it again.",
			}
		}
		return plain
	})
	return server, failed
}

// withoutColumns returns the settings that have no column.
func (v *MCP) withoutColumns() agent.MCPServer {
	rest := v.MCPServer
	rest.Transport = ""
	rest.Command = ""
	rest.CWD = ""
	rest.URL = ""
	rest.Args = nil
	rest.Env, rest.Headers = nil, nil
	rest.Sandbox = agent.Sandbox{}
	return rest
}

// serverSettings is stored as the JSON of the settings that have no column, with masked secrets.
type serverSettings struct{ v *MCP }

func (f serverSettings) Value() (driver.Value, error) {
	rest := settings.Mask(f.v.withoutColumns())
	if reflect.ValueOf(rest).IsZero() {
		return "", nil
	}
	text, err := json.Marshal(rest)
	return string(text), err
}

func (f serverSettings) Scan(src any) error {
	f.v.MCPServer = agent.MCPServer{}
	return db.JSON{V: &f.v.MCPServer, Zero: ""}.Scan(src)
}

// serverSecrets is stored as a JSON object with the sealed secrets of the settings that have no
// column.
type serverSecrets struct{ v *MCP }

func (f serverSecrets) Value() (driver.Value, error) {
	text, err := json.Marshal(settings.Secrets(f.v.withoutColumns()))
	return string(text), err
}

func (f serverSecrets) Scan(src any) error {
	sealed := map[string]string{}
	err := db.JSON{V: &sealed, Zero: ""}.Scan(src)
	f.v.MCPServer = settings.Replace(f.v.MCPServer, func(key, _ string) string { return sealed[key] })
	return err
}
