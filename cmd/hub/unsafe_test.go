package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/secret"
)

func TestUnsafeSettingsAreRejected(t *testing.T) {
	long := strings.Repeat("k", 32)
	postgres := "postgres://127.0.0.1:1/none"
	for name, row := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"a short ops key":       {env: []string{"OPS_API_KEY", long[1:]}, want: "OPS_API_KEY has 31 characters"},
		"a short push key":      {env: []string{"CHAT_PUSH_API_KEY", "secret"}, want: "CHAT_PUSH_API_KEY has 6 characters"},
		"equal keys":            {env: []string{"OPS_API_KEY", long, "CHAT_PUSH_API_KEY", long}, want: "OPS_API_KEY and CHAT_PUSH_API_KEY are equal"},
		"a short setup token":   {env: []string{"HUB_SETUP_TOKEN", "hello"}, want: "HUB_SETUP_TOKEN has 5 characters"},
		"PostgreSQL, no key":    {env: []string{"DATABASE_URL", postgres}, want: "PROVIDER_ENCRYPTION_KEY is required with PostgreSQL"},
		"postgresql, no key":    {env: []string{"DATABASE_URL", "postgresql://127.0.0.1:1/none"}, want: "PROVIDER_ENCRYPTION_KEY is required with PostgreSQL"},
		"a key in two places":   {env: []string{"OPS_API_KEY", long, "OPS_API_KEY_FILE", "/dev/null"}, want: "OPS_API_KEY and OPS_API_KEY_FILE are both set"},
		"a key in no file":      {env: []string{"IDP_CLIENT_SECRET_FILE", "/none"}, want: "read IDP_CLIENT_SECRET_FILE: "},
		"PostgreSQL, no URL":    {env: []string{"DATABASE_URL", postgres, "PROVIDER_ENCRYPTION_KEY", secret.Generate()}, args: []string{"--addr", "0.0.0.0:0"}, want: "HUB_PUBLIC_URL is required"},
		"a key that is none":    {env: []string{"PROVIDER_ENCRYPTION_KEY", "aGVsbG8="}, want: "PROVIDER_ENCRYPTION_KEY: "},
		"an unknown mode":       {env: []string{"AUTH_MODE", "ldap"}, want: `AUTH_MODE: "ldap" is not a valid mode`},
		"an incomplete client":  {env: []string{"AUTH_MODE", "external", "IDP_ISSUER", "https://idp.example.com"}, want: "set IDP_CLIENT_ID and IDP_CLIENT_SECRET too"},
		"only a certificate":    {env: []string{"AUTH_MODE", "external", "IDP_CERT", "x"}, want: "set IDP_ISSUER and IDP_CLIENT_ID and IDP_CLIENT_SECRET too"},
		"an issuer by http":     {env: []string{"AUTH_MODE", "external", "IDP_ISSUER", "http://idp.example.com", "IDP_CLIENT_ID", "a", "IDP_CLIENT_SECRET", "hunter22"}, want: "must be an https URL"},
		"no certificate":        {env: []string{"AUTH_MODE", "external", "IDP_ISSUER", "https://idp.example.com", "IDP_CLIENT_ID", "a", "IDP_CLIENT_SECRET", "hunter22", "IDP_CERT", "x"}, want: "Cert must be a certificate"},
		"an unused client":      {env: []string{"IDP_ISSUER", "https://idp.example.com", "IDP_CLIENT_SECRET", "hunter22"}, want: "AUTH_MODE is builtin, in which IDP_ISSUER, IDP_CLIENT_SECRET would be ignored: set AUTH_MODE=external, or remove them"},
		"unused admins":         {env: []string{"EXTERNAL_BOOTSTRAP_ADMINS", "acme/ada"}, want: "EXTERNAL_BOOTSTRAP_ADMINS would be ignored"},
		"an admin without org":  {env: []string{"AUTH_MODE", "external", "EXTERNAL_BOOTSTRAP_ADMINS", "ada"}, want: `EXTERNAL_BOOTSTRAP_ADMINS: "ada" does not have the form org/username`},
		"external, no URL":      {env: []string{"AUTH_MODE", "external"}, args: []string{"--addr", "0.0.0.0:0"}, want: "HUB_PUBLIC_URL is required in external mode"},
		"trust in everybody":    {env: []string{"HUB_TRUSTED_PROXIES", "10.0.0.0/8, 0.0.0.0/0"}, want: `HUB_TRUSTED_PROXIES: "0.0.0.0/0" is too wide`},
		"trust in half of all":  {env: []string{"HUB_TRUSTED_PROXIES", "0.0.0.0/1,128.0.0.0/1"}, want: `HUB_TRUSTED_PROXIES: "0.0.0.0/1" is too wide`},
		"another, and no key":   {env: []string{"DATABASE_URL", "mysql://root:hunter22@127.0.0.1/x"}, want: "DATABASE_URL is neither sqlite://"},
		"a proxy that is none":  {env: []string{"HUB_TRUSTED_PROXIES", "gateway"}, want: `HUB_TRUSTED_PROXIES: "gateway" is not a network`},
		"any origin":            {env: []string{"HUB_CORS_ORIGINS", "*"}, want: `HUB_CORS_ORIGINS: "*" is not an origin`},
		"an origin with a path": {env: []string{"HUB_CORS_ORIGINS", "https://a.example/b"}, want: "HUB_CORS_ORIGINS: "},
		"a URL that is none":    {env: []string{"HUB_PUBLIC_URL", "hub.example.com"}, want: "HUB_PUBLIC_URL is not a base URL"},
		"a URL with a password": {env: []string{"HUB_PUBLIC_URL", "https://me:secret@hub.example.com"}, want: "HUB_PUBLIC_URL is not a base URL"},
		"another database":      {env: []string{"DATABASE_URL", "mysql://root:hunter22@127.0.0.1/x", "PROVIDER_ENCRYPTION_KEY", secret.Generate()}, want: "DATABASE_URL is neither sqlite://"},
		"days that are none":    {env: []string{"AUDIT_RETENTION_DAYS", "-1"}, want: `AUDIT_RETENTION_DAYS: "-1" is not a number of days`},
		"an unknown gateway":    {env: []string{"GATEWAY_KIND", "envoy"}, want: `GATEWAY_KIND: "envoy" is not a gateway of this version`},
		"no admin interface":    {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://gw.example.com"}, want: "GATEWAY_KIND requires GATEWAY_URL and GATEWAY_ADMIN_URL"},
		"no gateway":            {env: []string{"GATEWAY_ADMIN_KEY", "hunter22"}, want: "without GATEWAY_KIND"},
		"a gateway below":       {env: []string{"GATEWAY_KIND", "apisix", "GATEWAY_URL", "https://gw.example.com/x", "GATEWAY_ADMIN_URL", "http://gw:9180"}, want: "GATEWAY_URL has a path"},
		"a gateway of nothing":  {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_ADMIN_URL", "http://gw:8001", "DEPLOYER", "none"}, want: "GATEWAY_KIND has no effect with DEPLOYER=none"},
		"a gateway as the hub":  {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://hub.example.com:8443", "GATEWAY_ADMIN_URL", "http://gw:8001", "HUB_PUBLIC_URL", "https://hub.example.com"}, want: "GatewayURL and PublicURL have the same host"},
		"a gateway without DNS": {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://my_gw.local", "GATEWAY_ADMIN_URL", "http://gw:8001"}, want: "is not a name"},
		"an admin password":     {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_ADMIN_URL", "http://me:hunter22@gw:8001"}, want: "GATEWAY_ADMIN_URL is not a base URL"},
		"private probes":        {env: []string{"HUB_PROBE_ALLOW_PRIVATE", "yes"}, want: `HUB_PROBE_ALLOW_PRIVATE: "yes" is neither true nor false`},
		"no answers":            {env: []string{"HUB_ANSWERS_PER_USER", "0"}, want: `HUB_ANSWERS_PER_USER: "0" is not a number from 1`},
		"answers in words":      {env: []string{"HUB_ANSWERS_PER_AGENT", "many"}, want: `HUB_ANSWERS_PER_AGENT: "many"`},
		"no requests":           {env: []string{"HUB_REQUESTS_PER_USER", "0"}, want: `HUB_REQUESTS_PER_USER: "0" is not a number from 1 to 100000, or none`},
		"requests in words":     {env: []string{"HUB_REQUESTS_PER_ADDRESS", "many"}, want: `HUB_REQUESTS_PER_ADDRESS: "many"`},
		"prices of words":       {env: []string{"HUB_MODEL_PRICES", `{"m":{"input":"much"}}`}, want: "HUB_MODEL_PRICES: "},
		"another price":         {env: []string{"HUB_MODEL_PRICES", `{"m":{"inputs":1}}`}, want: `HUB_MODEL_PRICES: `},
		"a negative price":      {env: []string{"HUB_MODEL_PRICES", `{"m":{"output":-1}}`}, want: `HUB_MODEL_PRICES: price of model "m"`},
		"a long drain":          {env: []string{"HUB_DRAIN_TIMEOUT", "31m"}, want: `HUB_DRAIN_TIMEOUT: 31m0s is not from 0s to 30m0s`},
		"a negative drain":      {args: []string{"--drain-timeout", "-1s"}, want: `HUB_DRAIN_TIMEOUT: -1s is not from`},
		"routes without pods":   {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_PARENT", "a/b"}, want: "requires DEPLOYER=kubernetes"},
		"routes, no parent":     {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t)}, want: "requires GATEWAY_URL and GATEWAY_PARENT"},
		"routes, bad parent":    {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_PARENT", "a", "DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t)}, want: `GATEWAY_PARENT: "a" is not NAMESPACE/NAME`},
		"routes, and an admin":  {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_PARENT", "a/b", "GATEWAY_ADMIN_URL", "http://gw", "DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t)}, want: "have no effect with GATEWAY_KIND=httproute"},
		"pods without a bus":    {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBERNETES_REPLICAS", "2"}, want: "several pods of a runtime require AGENT_BUS_URL"},
		"a bus of another kind": {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "AGENT_BUS_URL", "http://hunter22@host"}, want: "AGENT_BUS_URL: the URL must begin with nats://"},
		"a bus with a scope":    {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "AGENT_BUS_URL", "nats://hunter22@host/a/b"}, want: "AGENT_BUS_URL has a scope"},
		"a bus without a file":  {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "AGENT_BUS_URL", "nats://host?ca=/none"}, want: "AGENT_BUS_URL: ca: open /none"},
		"two users of it":       {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "AGENT_BUS_URL", "nats://hunter22@host", "AGENT_BUS_ACCOUNT_SEED", "SA"}, want: "AGENT_BUS_URL has a user or credentials"},
		"an account of no bus":  {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "AGENT_BUS_URL", "nats://host", "AGENT_BUS_ACCOUNT_SEED", "hunter22"}, want: "AGENT_BUS_ACCOUNT_SEED: the seed of the NATS account is malformed"},
		"an empty file of it":   {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "AGENT_BUS_URL", "nats://host?ca=/dev/null"}, want: "/dev/null is empty"},
		"days that are words":   {env: []string{"AUDIT_RETENTION_DAYS", "ten"}, want: `AUDIT_RETENTION_DAYS: "ten"`},
		"an address":            {args: []string{"--addr", "8080"}, want: `--addr "8080" is not an address`},
		"an argument":           {args: []string{"serve"}, want: `"serve"`},
		"a flag":                {args: []string{"--port", "1"}, want: "hub --help lists the flags"},
	} {
		t.Run(name, func(t *testing.T) {
			env := append([]string{"HUB_ADDR", "127.0.0.1:0", "HUB_DATA_DIR", t.TempDir()}, row.env...)
			_, err := once(t, env, row.args...)
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "\n", "one sentence")
			require.NotContains(t, err.Error(), "hunter22")
		})
	}
}

// A start and --check name all errors. --check creates nothing.
func TestAllErrorsOfTheSettings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	env := []string{
		"HUB_DATA_DIR", dir, "AUTH_MODE", "ldap", "OPS_API_KEY", "a", "CHAT_PUSH_API_KEY", "a", "HUB_SETUP_TOKEN", "b", "DATABASE_URL", "mysql://",
		"PROVIDER_ENCRYPTION_KEY", "c", "HUB_DRAIN_TIMEOUT", "1h", "AUDIT_RETENTION_DAYS", "d", "HUB_PROBE_ALLOW_PRIVATE", "e", "HUB_ADDR", "f",
		"DEPLOYER", "g", "DEPLOYER_LEASE_TIME", "1ms", "DEPLOYER_PREPARE_TIMEOUT", "-1s", "HUB_SANDBOX_READ", "h", "HUB_SANDBOX_WRITE", "i", "HUB_SANDBOX_USERS", "j",
		"RUNTIME_APIKEY_VISIBLE_TO_MEMBER", "k", "GATEWAY_URL", "l", "GATEWAY_ADMIN_URL", "m", "HUB_ANSWERS_PER_USER", "n", "HUB_ANSWERS_PER_AGENT", "o",
		"HUB_REQUESTS_PER_USER", "w", "HUB_REQUESTS_PER_ADDRESS", "x", "HUB_MODEL_PRICES", "y", "HUB_USAGE_RETENTION_DAYS", "z2",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "z", "OTEL_TRACES_SAMPLER", "z1",
		"HUB_TRUSTED_PROXIES", "p", "HUB_CORS_ORIGINS", "q", "HUB_PUBLIC_URL", "r", "OSS_CDN_HOST", "s:t:u", "BLOB_URL", "ftp://v",
	}
	for _, args := range [][]string{{"--check"}, nil} {
		_, err := once(t, env, args...)
		require.Error(t, err)
		for i, name := range env {
			if i > 0 && i%2 == 0 && name != "HUB_ADDR" {
				require.Contains(t, err.Error(), name)
			}
		}
		require.Contains(t, err.Error(), `--addr "f"`)
		require.NoDirExists(t, dir)
	}
	out, err := once(t, []string{"HUB_DATA_DIR", dir}, "--check")
	require.NoError(t, err)
	require.Equal(t, "the settings are valid\n", out)
	require.NoDirExists(t, dir)
}

func TestTheEncryptionKeyIsStoredAndProtected(t *testing.T) {
	dir := t.TempDir()
	env := []string{"HUB_DATA_DIR", dir, "HUB_ADDR", "127.0.0.1:0"}
	key := filepath.Join(dir, "encryption.key")
	started(t, env)
	for _, path := range []string{key, filepath.Join(dir, "hub.db")} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
	}
	before, err := os.ReadFile(key)
	require.NoError(t, err)
	started(t, env)
	after, err := os.ReadFile(key)
	require.NoError(t, err)
	require.Equal(t, before, after, "it is made once")

	t.Run("others can read it", func(t *testing.T) {
		require.NoError(t, os.Chmod(key, 0o644))
		defer func() { require.NoError(t, os.Chmod(key, 0o600)) }()
		_, err := once(t, env)
		require.ErrorContains(t, err, "is readable by other users")
	})
	t.Run("another one", func(t *testing.T) {
		foreign := append([]string{"PROVIDER_ENCRYPTION_KEY", secret.Generate()}, env...)
		for _, args := range [][]string{nil, {"rekey"}, {"retire-key"}} {
			_, err := once(t, foreign, args...)
			require.ErrorContains(t, err, "PROVIDER_ENCRYPTION_KEY has no key that decrypts the secrets", "%v", args)
		}
		started(t, env)
	})
	t.Run("a new one before it", func(t *testing.T) {
		next := secret.Generate()
		out, err := once(t, append([]string{"PROVIDER_ENCRYPTION_KEY", next + "," + strings.TrimSpace(string(before))}, env...), "rekey")
		require.NoError(t, err)
		require.Equal(t, "1 secrets were encrypted again\n", out)
		_, err = once(t, append([]string{"PROVIDER_ENCRYPTION_KEY", next}, env...), "rekey")
		require.NoError(t, err, "the former key can be dropped")
	})
	t.Run("it is gone", func(t *testing.T) {
		require.NoError(t, os.Remove(key))
		_, err := once(t, env)
		require.ErrorContains(t, err, "is missing")
	})
}

func TestANewerDatabaseIsRejected(t *testing.T) {
	env := []string{"HUB_DATA_DIR", t.TempDir(), "HUB_ADDR", "127.0.0.1:0"}
	started(t, env)
	bump(t, env[1])
	_, err := once(t, env)
	require.ErrorContains(t, err, "newer")
}

// started starts a hub and stops it.
func started(t *testing.T, env []string) {
	t.Helper()
	t.Run("a start", func(t *testing.T) { serving(t, env) })
}

// Commands of an operator create neither a database nor a directory.
func TestCommandsCreateNoDatabase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "typo")
	for _, args := range [][]string{{"audit"}, {"rekey"}, {"reset-password", "admin"}} {
		_, err := once(t, []string{"HUB_DATA_DIR", dir}, args...)
		require.ErrorContains(t, err, "no database exists")
	}
	require.NoDirExists(t, dir)
}

// kubeconfig returns the path of a file with the address of an API server that does not exist.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: "https://192.0.2.1"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
