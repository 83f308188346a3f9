package catalog

import (
	"bytes"
	"cmp"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Secrets of servers are sealed one by one, bound to their tenant, server, name, and destination:
// the command with its arguments and directory, and the origin of the URL. Their names can be
// listed without the key. Earlier versions bound them to less.
var (
	envColumn     = sealedColumn("env")
	headersColumn = sealedColumn("headers")
	secretsColumn = sealedColumn("secrets")
)

func sealedColumn(name string) store.Sealed {
	return store.Sealed{
		Table: "mcps", Column: name, ID: "id", Bound: []string{"tenant_id", "command", "url", "args", "cwd"}, Named: true, Unbound: true, Advice: setAgain,
		Normal: func(bound []string) []string {
			return []string{bound[0], bound[1], settings.Origin(bound[2]), normalArgs(bound[3]), bound[4]}
		},
	}
}

// normalArgs returns the column of arguments without what does not change them.
func normalArgs(text string) string {
	var args []string
	if json.Unmarshal([]byte(text), &args) != nil {
		return text
	}

	return encodedArgs(args)
}

func encodedArgs(args []string) string {
	text, err := json.Marshal(append([]string{}, args...))
	if err != nil { // never of texts
		panic(err)
	}

	return string(text)
}

// destination is where the secrets of a server go. A change of it needs them again; arguments and
// other variables may change next to a secret that is kept.
func destination(s agent.MCPServer) [3]string {
	return [3]string{s.Command, settings.Origin(s.URL), settings.Origin(s.OAuth.Issuer)}
}

const setAgain = "set the value of the MCP server again"

// Sealed are the columns with secrets, for [store.Store.Reseal] and [store.Store.Rebind].
func Sealed() []store.Sealed { return []store.Sealed{envColumn, headersColumn, secretsColumn} }

// placeOf returns the place of the secret with a key of [settings.Replace].
func placeOf(tenantID string, v MCP, key string) []byte {
	if name, ok := strings.CutPrefix(key, "env."); ok {
		return v.place(envColumn, name, tenantID)
	}

	if name, ok := strings.CutPrefix(key, "headers."); ok {
		return v.place(headersColumn, name, tenantID)
	}

	return v.place(secretsColumn, storedKey(v.MCPServer, key), tenantID)
}

func (v MCP) place(column store.Sealed, name, tenantID string) []byte {
	return column.NamedPlace(name, v.ID, tenantID, v.Command, v.URL, encodedArgs(v.Args), v.CWD)
}

// clientSecret is the key of a secret that goes to the issuer.
const clientSecret = "oauth.clientSecret"

// storedKey returns the name under which a secret is stored and sealed. It binds the secret of a
// client to its issuer, which has no column. Earlier versions did not.
func storedKey(server agent.MCPServer, key string) string {
	if issuer := settings.Origin(server.OAuth.Issuer); key == clientSecret && issuer != "" {
		return key + " " + issuer
	}

	return key
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
	same := destination(v.MCPServer) == destination(stored.MCPServer)
	known := settings.Secrets(stored.MCPServer)
	v.MCPServer = settings.Replace(v.MCPServer, func(key, value string) string {
		place := placeOf(tenantID, *v, key)
		before, ok := known[key]
		if value == settings.Masked && ok && !same {
			fields.Add(key, settings.OtherDestination)
			return ""
		}

		plain, current, err := s.openSecret(tenantID, stored, key, before)
		if ok && err == nil && !(current && bytes.Equal(placeOf(tenantID, stored, key), place)) {
			before = base64.StdEncoding.EncodeToString(s.store.Keyring.Seal([]byte(plain), place))
		}

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

// openSecret returns a secret of v in clear text, and whether it is sealed as now. Earlier versions
// did not seal the query of a URL, nor bind the secret of a client to its issuer.
func (s *Service) openSecret(tenantID string, v MCP, key, sealed string) (string, bool, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if strings.HasPrefix(key, "query.") && secret.KeyID(raw) == "" {
		return sealed, false, nil
	}

	if err != nil {
		return "", false, fmt.Errorf("decode sealed value: %w", err)
	}

	opened, err := s.store.Keyring.Open(raw, placeOf(tenantID, v, key))
	if err == nil || key != clientSecret {
		return string(opened), true, err
	}

	opened, err = s.store.Keyring.Open(raw, v.place(secretsColumn, key, tenantID))
	return string(opened), false, err
}

// openServer returns a server as the runtime has it. It fails with wire.Conflict if a secret cannot
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
		plain, _, err := s.openSecret(tenantID, v, key, sealed)
		if err != nil {
			failed = &wire.Error{
				Code: wire.Conflict, Cause: err, Message: "The value " + key + " of MCP server " + v.Name + " cannot be decrypted: set it again.",
			}
		}

		return plain
	})
	return server, failed
}

// withoutColumns returns the settings that have no column. Of the URL, that is the query.
func (v *MCP) withoutColumns() agent.MCPServer {
	rest := v.MCPServer
	rest.Transport = ""
	rest.Command = ""
	rest.CWD = ""
	rest.URL = ""
	if _, query, found := strings.Cut(v.URL, "?"); found {
		rest.URL = "?" + query
	}

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
	rest := f.v.withoutColumns()
	sealed := map[string]string{}
	for key, value := range settings.Secrets(rest) {
		sealed[storedKey(rest, key)] = value
	}

	text, err := json.Marshal(sealed)
	return string(text), err
}

func (f serverSecrets) Scan(src any) error {
	sealed := map[string]string{}
	err := db.JSON{V: &sealed, Zero: ""}.Scan(src)
	f.v.MCPServer = settings.Replace(f.v.MCPServer, func(key, _ string) string {
		if key == clientSecret { // the row names another issuer than the sealed one
			return cmp.Or(sealed[storedKey(f.v.MCPServer, key)], sealed[key], "-")
		}

		return sealed[key]
	})
	return err
}

// serverURL is stored without the query, whose values are secrets. It is read after the settings,
// which have the names of the query.
type serverURL struct{ v *MCP }

func (f serverURL) Value() (driver.Value, error) {
	base, _, _ := strings.Cut(f.v.URL, "?")
	return base, nil
}

func (f serverURL) Scan(src any) error {
	var base sql.NullString
	err := base.Scan(src)
	f.v.URL = base.String + f.v.URL
	return err
}
