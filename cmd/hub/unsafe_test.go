package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/secret"
)

func TestUnsafeSettingsAreRejected(t *testing.T) {
	long := strings.Repeat("k", 32)
	postgres := "postgres://127.0.0.1:1/none"
	for name, row := range map[string]struct {
		env  []string
		file string
		args []string
		want string
	}{
		"a short ops key":       {env: []string{"OPS_API_KEY", long[1:]}, want: "OPS_API_KEY: it is shorter than 32 characters"},
		"a short push key":      {env: []string{"CHAT_PUSH_API_KEY", "secret"}, want: "CHAT_PUSH_API_KEY: it is shorter than 32"},
		"equal keys":            {env: []string{"OPS_API_KEY", long, "CHAT_PUSH_API_KEY", long}, want: "CHAT_PUSH_API_KEY: it equals OPS_API_KEY"},
		"a short setup token":   {env: []string{"HUB_SETUP_TOKEN", "hello"}, want: "HUB_SETUP_TOKEN: it is shorter than 16"},
		"PostgreSQL, no key":    {env: []string{"DATABASE_URL", postgres}, want: "PROVIDER_ENCRYPTION_KEY, encryptionKey: it is required with PostgreSQL"},
		"postgresql, no key":    {env: []string{"DATABASE_URL", "postgresql://127.0.0.1:1/none"}, want: "PROVIDER_ENCRYPTION_KEY, encryptionKey: it is required with PostgreSQL"},
		"a key in two places":   {env: []string{"OPS_API_KEY", long, "OPS_API_KEY_FILE", "/dev/null"}, want: "OPS_API_KEY and OPS_API_KEY_FILE are both set"},
		"a key in no file":      {env: []string{"IDP_CLIENT_SECRET_FILE", "/none"}, want: "IDP_CLIENT_SECRET_FILE: stat /none: "},
		"PostgreSQL, no URL":    {env: []string{"DATABASE_URL", postgres, "PROVIDER_ENCRYPTION_KEY", secret.Generate()}, args: []string{"--addr", "0.0.0.0:0"}, want: "HUB_PUBLIC_URL, publicUrl: it is required with PostgreSQL"},
		"a key that is none":    {env: []string{"PROVIDER_ENCRYPTION_KEY", "aGVsbG8="}, want: "PROVIDER_ENCRYPTION_KEY: "},
		"an unknown mode":       {env: []string{"AUTH_MODE", "ldap"}, want: `AUTH_MODE: "ldap" is not one of builtin, external`},
		"an incomplete client":  {env: []string{"AUTH_MODE", "external", "IDP_ISSUER", "https://idp.example.com", "IDP_CLIENT_ID", "a"}, want: "IDP_CLIENT_SECRET, auth.clientSecret: it is required"},
		"only a certificate":    {env: []string{"AUTH_MODE", "external", "IDP_ISSUER", "https://idp.example.com", "IDP_CLIENT_SECRET", "hunter22", "IDP_CERT", "x"}, want: "IDP_CLIENT_ID, auth.clientId: it is required"},
		"an issuer by http":     {env: []string{"AUTH_MODE", "external", "IDP_ISSUER", "http://idp.example.com", "IDP_CLIENT_ID", "a", "IDP_CLIENT_SECRET", "hunter22"}, want: "must be an https URL"},
		"no certificate":        {env: []string{"AUTH_MODE", "external", "IDP_ISSUER", "https://idp.example.com", "IDP_CLIENT_ID", "a", "IDP_CLIENT_SECRET", "hunter22", "IDP_CERT", "x"}, want: "Cert must be a certificate"},
		"an unused client":      {env: []string{"IDP_CLIENT_SECRET", "hunter22"}, want: "IDP_CLIENT_SECRET: it has no effect with AUTH_MODE=builtin: set AUTH_MODE=external, or remove it"},
		"unused admins":         {env: []string{"EXTERNAL_BOOTSTRAP_ADMINS", "acme/ada"}, want: "EXTERNAL_BOOTSTRAP_ADMINS: it has no effect"},
		"an admin without org":  {env: []string{"AUTH_MODE", "external", "EXTERNAL_BOOTSTRAP_ADMINS", "ada"}, want: `EXTERNAL_BOOTSTRAP_ADMINS: "ada" does not have the form org/username`},
		"external, no URL":      {env: []string{"AUTH_MODE", "external"}, args: []string{"--addr", "0.0.0.0:0"}, want: "HUB_PUBLIC_URL, publicUrl: it is required in external mode"},
		"trust in everybody":    {env: []string{"HUB_TRUSTED_PROXIES", "10.0.0.0/8, 0.0.0.0/0"}, want: `HUB_TRUSTED_PROXIES: "0.0.0.0/0" is too wide`},
		"trust in half of all":  {env: []string{"HUB_TRUSTED_PROXIES", "0.0.0.0/1,128.0.0.0/1"}, want: `HUB_TRUSTED_PROXIES: "0.0.0.0/1" is too wide`},
		"another, and no key":   {env: []string{"DATABASE_URL", "mysql://root:hunter22@127.0.0.1/x"}, want: "DATABASE_URL: it is neither sqlite://"},
		"a proxy that is none":  {env: []string{"HUB_TRUSTED_PROXIES", "gateway"}, want: `HUB_TRUSTED_PROXIES: "gateway" is not a network`},
		"any origin":            {env: []string{"HUB_CORS_ORIGINS", "*"}, want: `HUB_CORS_ORIGINS: "*" is not an origin`},
		"an origin with a path": {env: []string{"HUB_CORS_ORIGINS", "https://a.example/b"}, want: "HUB_CORS_ORIGINS: "},
		"a URL that is none":    {env: []string{"HUB_PUBLIC_URL", "hub.example.com"}, want: "HUB_PUBLIC_URL: must be a base URL"},
		"a URL with a password": {env: []string{"HUB_PUBLIC_URL", "https://me:secret@hub.example.com"}, want: "HUB_PUBLIC_URL: must be a base URL"},
		"another database":      {env: []string{"DATABASE_URL", "mysql://root:hunter22@127.0.0.1/x", "PROVIDER_ENCRYPTION_KEY", secret.Generate()}, want: "DATABASE_URL: it is neither sqlite://"},
		"days that are none":    {env: []string{"AUDIT_RETENTION_DAYS", "-1"}, want: `AUDIT_RETENTION_DAYS: -1 is not from 1 to 36500`},
		"an unknown gateway":    {env: []string{"GATEWAY_KIND", "envoy"}, want: `GATEWAY_KIND: "envoy" is not one of kong, apisix, httproute`},
		"no admin interface":    {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://gw.example.com"}, want: "GATEWAY_KIND: it requires GATEWAY_URL and GATEWAY_ADMIN_URL"},
		"no gateway":            {env: []string{"GATEWAY_ADMIN_KEY", "hunter22"}, want: "GATEWAY_KIND, gateway.kind: GATEWAY_ADMIN_URL and GATEWAY_ADMIN_KEY have no effect without it"},
		"a gateway below":       {env: []string{"GATEWAY_KIND", "apisix", "GATEWAY_URL", "https://gw.example.com/x", "GATEWAY_ADMIN_URL", "http://gw:9180"}, want: "GATEWAY_URL: it has a path"},
		"a gateway of nothing":  {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_ADMIN_URL", "http://gw:8001", "DEPLOYER", "none"}, want: "GATEWAY_KIND: it has no effect with DEPLOYER=none"},
		"a gateway as the hub":  {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://hub.example.com:8443", "GATEWAY_ADMIN_URL", "http://gw:8001", "HUB_PUBLIC_URL", "https://hub.example.com"}, want: "GatewayURL and PublicURL have the same host"},
		"a gateway without DNS": {env: []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "https://my_gw.local", "GATEWAY_ADMIN_URL", "http://gw:8001"}, want: "is not a name"},
		"an admin password":     {env: []string{"GATEWAY_ADMIN_URL", "http://me:hunter22@gw:8001"}, want: "GATEWAY_ADMIN_URL: must be a base URL"},
		"private probes":        {env: []string{"HUB_PROBE_ALLOW_PRIVATE", "yes"}, want: `HUB_PROBE_ALLOW_PRIVATE: "yes" is neither true nor false`},
		"no answers":            {file: "limits: {answersPerUser: 0}", want: `hub.yaml:1: limits.answersPerUser: 0 is not from 1`},
		"answers in words":      {file: "limits:\n  answersPerAgent: many", want: `hub.yaml:2: limits.answersPerAgent: "many" is not a whole number`},
		"fewer requests":        {file: "limits: {requestsPerUser: -1}", want: `limits.requestsPerUser: -1 is not from 0 to 100000`},
		"requests in words":     {file: "limits: {requestsPerAddress: many}", want: `limits.requestsPerAddress: "many"`},
		"prices of words":       {file: "usage: {prices: {m: {input: much}}}", want: "hub.yaml:1: usage.prices: "},
		"another price":         {file: "usage: {prices: {m: {inputs: 1}}}", want: `usage.prices: parse prices: json: unknown field "inputs"`},
		"a negative price":      {file: "usage: {prices: {m: {output: -1}}}", want: `usage.prices: price of model "m"`},
		"a long drain":          {env: []string{"HUB_DRAIN_TIMEOUT", "31m"}, want: `HUB_DRAIN_TIMEOUT: 31m is not from 0s to 30m`},
		"a negative drain":      {args: []string{"--drain-timeout", "-1s"}, want: `--drain-timeout: -1s is not from`},
		"routes without pods":   {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_PARENT", "a/b"}, want: "GATEWAY_KIND: httproute requires DEPLOYER=kubernetes"},
		"routes, no parent":     {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t)}, want: "GATEWAY_KIND: httproute requires GATEWAY_URL and GATEWAY_PARENT"},
		"routes, bad parent":    {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_PARENT", "a", "DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t)}, want: `GATEWAY_PARENT: "a" is not NAMESPACE/NAME`},
		"routes, and an admin":  {env: []string{"GATEWAY_KIND", "httproute", "GATEWAY_URL", "https://gw.example.com", "GATEWAY_PARENT", "a/b", "GATEWAY_ADMIN_URL", "http://gw", "DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t)}, want: "have no effect with httproute"},
		"pods without a bus":    {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "DEPLOYER_REPLICAS", "2"}, want: "several pods of a runtime require AGENT_BUS_URL"},
		"a bus of another kind": {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "AGENT_BUS_URL", "http://hunter22@host"}, want: "AGENT_BUS_URL: the URL must begin with nats://"},
		"a bus with a scope":    {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "AGENT_BUS_URL", "nats://hunter22@host/a/b"}, want: "AGENT_BUS_URL: it has a scope"},
		"a bus without a file":  {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "AGENT_BUS_URL", "nats://host?ca=/none"}, want: "AGENT_BUS_URL: ca: stat /none"},
		"two users of it":       {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "AGENT_BUS_URL", "nats://hunter22@host", "AGENT_BUS_ACCOUNT_SEED", "SA"}, want: "AGENT_BUS_URL has a user or credentials"},
		"an account of no bus":  {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "AGENT_BUS_URL", "nats://host", "AGENT_BUS_ACCOUNT_SEED", "hunter22"}, want: "AGENT_BUS_ACCOUNT_SEED: the seed of the NATS account is malformed"},
		"an empty file of it":   {env: []string{"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "AGENT_BUS_URL", "nats://host?ca=/dev/null"}, want: "AGENT_BUS_URL: ca: /dev/null is not a regular file"},
		"days that are words":   {env: []string{"AUDIT_RETENTION_DAYS", "ten"}, want: `AUDIT_RETENTION_DAYS: "ten" is not a whole number`},
		"an address":            {args: []string{"--addr", "8080"}, want: `--addr: "8080" is not an address`},
		"an argument":           {args: []string{"serve"}, want: `"serve"`},
		"a flag":                {args: []string{"--port", "1"}, want: "hub --help lists the flags"},
	} {
		t.Run(name, func(t *testing.T) {
			env := append([]string{"HUB_ADDR", "127.0.0.1:0", "HUB_DATA_DIR", t.TempDir()}, row.env...)
			if row.file != "" {
				env = append(env, "HUB_CONFIG", file(t, row.file))
			}
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
	config := file(t, `
deployer:
  leaseTime: 1ms
  prepareTimeout: -1s
  memory: [1Gi]
  max: {cpu: 2}
sandbox: {read: [h], write: i, users: j}
limits: {answersPerUser: n, answersPerAgent: o, requestsPerUser: w, requestsPerAddress: x}
usage: {prices: y, retentionDays: z}
metrics: {hosts: a}
colour: blue
addr: null
opsKey: a
opsKeyFile: /dev/null
`)
	env := []string{
		"HUB_DATA_DIR", dir, "AUTH_MODE", "ldap", "CHAT_PUSH_API_KEY", "a", "HUB_SETUP_TOKEN", "b", "DATABASE_URL", "mysql://",
		"HUB_DRAIN_TIMEOUT", "1h", "AUDIT_RETENTION_DAYS", "d", "HUB_PROBE_ALLOW_PRIVATE", "e", "HUB_ADDR", "f", "DEPLOYER", "g",
		"RUNTIME_APIKEY_VISIBLE_TO_MEMBER", "k", "GATEWAY_URL", "l", "GATEWAY_ADMIN_URL", "m", "OTEL_EXPORTER_OTLP_ENDPOINT", "z",
		"OTEL_TRACES_SAMPLER", "z1", "HUB_TRUSTED_PROXIES", "p", "HUB_CORS_ORIGINS", "q", "HUB_PUBLIC_URL", "r", "OSS_CDN_HOST", "s:t:u",
		"BLOB_URL", "ftp://v", "DEPLOYER_CPU", "2", "HUB_LOG_LEVEL", "all", "DOCKER_MEMORY", "1024", "HUB_SANDBOX_READ", "/srv",
	}
	faults := []string{
		"3: deployer.leaseTime: 1ms is not from 500ms to 1h", "4: deployer.prepareTimeout: -1s is not from 1s to 24h",
		"5: deployer.memory: must be one value", "6: deployer.max.cpu: must be from 10m", `7: sandbox.read: "h" is not an absolute path`,
		`7: sandbox.write: "i" is not`, `7: sandbox.users: "j" is not a range`, `8: limits.answersPerUser: "n"`, `8: limits.answersPerAgent: "o"`,
		`8: limits.requestsPerUser: "w"`, `8: limits.requestsPerAddress: "x"`, "9: usage.prices: parse prices", `9: usage.retentionDays: "z"`,
		"10: metrics.hosts: it has no effect without HUB_METRICS_ADDR", "11: colour: unknown key", "12: addr: has no value",
		"13: opsKey: opsKey and opsKeyFile are both set",
	}
	for _, args := range [][]string{{"--check"}, nil} {
		_, err := once(t, append(env, "HUB_CONFIG", config), args...)
		require.Error(t, err)
		lines := strings.Split(err.Error(), "\n")
		has := func(start string) {
			i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, start) })
			require.GreaterOrEqual(t, i, 0, "%s in\n%s", start, err)
			lines = slices.Delete(lines, i, i+1)
		}
		for i := 2; i < len(env); i += 2 {
			has(env[i] + ": ")
		}
		for _, fault := range faults {
			has(config + ":" + fault)
		}
		require.LessOrEqual(t, len(lines), 1, "nothing is reported twice: %q", lines)
		require.NoDirExists(t, dir)
	}
	_, err := once(t, append(env, "HUB_CONFIG", config), "--check")
	require.ErrorContains(t, err, "DOCKER_MEMORY: was renamed to DEPLOYER_MEMORY: memory of the runtime of an agent that has no limit of its own, such as 512Mi")
	require.ErrorContains(t, err, "HUB_SANDBOX_READ: was renamed to sandbox.read in the file of settings: files and directories")
	out, err := once(t, []string{"HUB_DATA_DIR", dir, "HUB_CONFIG", file(t, "\ufefflimits:\r\n  answersPerUser: 3\r\n")}, "--check")
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
