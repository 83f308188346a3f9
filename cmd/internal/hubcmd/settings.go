package hubcmd

import (
	"cmp"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/hub"
)

// help is a template for cobra.
const help = `{{if ne .Name "hub"}}{{or .Long .Short}}

Usage:
  {{.UseLine}}
{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages}}{{end}}{{else}}The control plane of LLM agents: configuration, deployments, chats, users, and the audit log.

Usage:
  {{.CommandPath}} [flags]
  {{.CommandPath}} [command]

Commands:
{{range .Commands}}{{if .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}
Flags:
{{.LocalFlags.FlagUsages}}
Settings, as variables and as keys of the file of --config. A flag overrides a variable, and a variable the file. In the file, a
key with a dot is below the key before the dot. Relative paths are relative to the current directory. NAME_FILE is the path of a
file with the value, in place of each secret NAME: DATABASE_URL, *_KEY, HUB_SETUP_TOKEN, IDP_CLIENT_SECRET, AGENT_BUS_*, AWS_*
and OTEL_EXPORTER_OTLP_HEADERS; in the file, it is keyFile. The OTEL_ variables are those of the OpenTelemetry specification.

{{settings}}
Examples:
  {{.CommandPath}}                                      SQLite in ./data
  {{.CommandPath}} --check                              every error in the settings
  {{.CommandPath}} doctor                               what is wrong with the installation
  DATABASE_URL=postgres://... {{.CommandPath}}          as one of several replicas
  {{.CommandPath}} reset-password admin                 if no admin can log in
  {{.CommandPath}} admin-token acme/ada                 if the identity provider is unavailable
{{end}}`

// Settings are what the program reads from its flags, the environment and a file, see
// [daemon.Read].
type Settings struct {
	Config         daemon.File     `env:"HUB_CONFIG" flag:"config" help:"YAML file with settings"`
	Addr           string          `env:"HUB_ADDR" key:"addr" flag:"addr" envDefault:"127.0.0.1:8080" help:"address to listen on"`
	DataDir        string          `env:"HUB_DATA_DIR" key:"dataDir" envDefault:"data" help:"directory of the database and generated secrets"`
	DatabaseURL    string          `env:"DATABASE_URL" key:"databaseUrl" secret:"file" help:"sqlite://PATH or postgres://... (default hub.db in HUB_DATA_DIR)"`
	EncryptionKeys string          `env:"PROVIDER_ENCRYPTION_KEY" key:"encryptionKey" secret:"file" help:"keys for secrets in the database, base64 of 32 bytes each, separated by commas: the first encrypts, all decrypt (with SQLite by default generated in HUB_DATA_DIR)"`
	PublicURL      daemon.URL      `env:"HUB_PUBLIC_URL" key:"publicUrl" help:"public address, the base of links (default http://ADDR)"`
	SetupToken     string          `env:"HUB_SETUP_TOKEN" key:"setupToken" range:"16" secret:"file" help:"token for the first-run setup (default: generated and printed at startup)"`
	TrustedProxies daemon.Networks `env:"HUB_TRUSTED_PROXIES" key:"trustedProxies" help:"networks of proxies, such as 10.0.0.0/8, whose X-Forwarded-For is trusted"`
	CORSOrigins    daemon.List     `env:"HUB_CORS_ORIGINS" key:"corsOrigins" help:"origins, such as https://app.example.com, whose pages may send requests"`
	DrainTimeout   time.Duration   `env:"HUB_DRAIN_TIMEOUT" key:"drainTimeout" flag:"drain-timeout" envDefault:"30s" range:"0s 30m" help:"how long answers of chats and runs at /runtime may continue after SIGTERM, SIGINT or SIGHUP before they are cancelled"`
	Level          daemon.Level    `env:"HUB_LOG_LEVEL" key:"logLevel" flag:"log-level" envDefault:"info" help:"lowest level of the log: debug, info, warn or error"`
	MetricsAddr    string          `env:"HUB_METRICS_ADDR" key:"metrics.addr" flag:"metrics-addr" help:"private address of GET /metrics for Prometheus, without a key (default off)"`
	MetricsHosts   daemon.List     `env:"metrics.hosts" was:"HUB_METRICS_HOSTS" help:"host names under which Prometheus calls it, in addition to addresses and localhost"`

	AuthMode    string      `env:"AUTH_MODE" key:"auth.mode" envDefault:"builtin" options:"builtin external" help:"builtin, or external: users sign in with the identity provider of their organization"`
	IDPIssuer   string      `env:"IDP_ISSUER" key:"auth.issuer" help:"issuer of the OpenID Connect client of the organization default in external mode, with the next two settings"`
	IDPClientID string      `env:"IDP_CLIENT_ID" key:"auth.clientId" help:"id of that client"`
	IDPSecret   string      `env:"IDP_CLIENT_SECRET" key:"auth.clientSecret" secret:"file" help:"secret of that client"`
	IDPCert     string      `env:"IDP_CERT" key:"auth.cert" help:"certificate or public key in PEM that verifies its tokens (default: the published keys)"`
	IDPGroups   string      `env:"auth.groupsClaim" was:"IDP_GROUPS_CLAIM" help:"claim with the groups of its users, which agents may be limited to (default none)"`
	Admins      daemon.List `env:"EXTERNAL_BOOTSTRAP_ADMINS" key:"auth.admins" help:"users, as org/sub:SUBJECT or org/username, who become admin at their first external login; both are compared exactly, and a subject is never given to another user"`
	OpsKey      string      `env:"OPS_API_KEY" key:"opsKey" range:"32" secret:"file" help:"key of at least 32 characters of the operations interface, which registers the clients of organizations (default: it does not exist)"`
	PushKey     string      `env:"CHAT_PUSH_API_KEY" key:"chatPushKey" range:"32" secret:"file" help:"another such key, of programs that push chats"`
	KeyVisible  bool        `env:"RUNTIME_APIKEY_VISIBLE_TO_MEMBER" key:"keyVisibleToMember" envDefault:"true" help:"false hides the API keys of deployments from members"`

	BlobURL         string `env:"BLOB_URL" key:"blobs.url" help:"file://PATH or s3://BUCKET/PREFIX?region=REGION&endpoint=URL, the files of tools and skills (default blobs in HUB_DATA_DIR)"`
	CDNHost         string `env:"OSS_CDN_HOST" key:"blobs.cdnHost" help:"public host of the files of tools, such as a CDN (default /artifacts of the hub)"`
	AccessKeyID     string `env:"AWS_ACCESS_KEY_ID" key:"blobs.accessKeyId" secret:"file" help:"credentials of the bucket, with the next two settings (default: the standard chain of AWS: AWS_PROFILE and the shared files, the role of a web identity, of a container or of the machine)"`
	SecretAccessKey string `env:"AWS_SECRET_ACCESS_KEY" key:"blobs.secretAccessKey" secret:"file" help:"their secret"`
	SessionToken    string `env:"AWS_SESSION_TOKEN" key:"blobs.sessionToken" secret:"file" help:"their token, if they are temporary"`

	Deployer       string        `env:"DEPLOYER" key:"deployer.kind" envDefault:"process" options:"process docker kubernetes none" help:"process runs deployed agents on this machine, docker in containers, kubernetes in pods; none"`
	Image          string        `env:"DEPLOYER_IMAGE" key:"deployer.image" envDefault:"agenthost-runtime" was:"DOCKER_IMAGE KUBERNETES_IMAGE" help:"image of the runtimes of docker and kubernetes"`
	Memory         daemon.Memory `env:"DEPLOYER_MEMORY" key:"deployer.memory" was:"DOCKER_MEMORY KUBERNETES_MEMORY" help:"memory of the runtime of an agent that has no limit of its own, such as 512Mi (default 1Gi; for process, that of deployer.max)"`
	CPU            daemon.CPU    `env:"DEPLOYER_CPU" key:"deployer.cpu" was:"DOCKER_CPUS KUBERNETES_CPUS" help:"its processors, such as 500m for half of one (default 1000m; process has no such limit)"`
	Processes      int           `env:"DEPLOYER_PROCESSES" key:"deployer.processes" range:"16 4194304" was:"DOCKER_PROCESSES" help:"its processes with threads (default 512 with docker; for process, that of deployer.max; kubernetes has no such limit)"`
	Replicas       int           `env:"DEPLOYER_REPLICAS" key:"deployer.replicas" envDefault:"1" range:"1 100" was:"KUBERNETES_REPLICAS" help:"its pods with kubernetes; several require AGENT_BUS_URL"`
	MaxMemory      daemon.Memory `env:"deployer.max.memory" was:"DEPLOYER_MEMORY_MAX" help:"most that the deployment settings of an agent may have (default: that of the setting above, as for the next three)"`
	MaxCPU         daemon.CPU    `env:"deployer.max.cpu" was:"DEPLOYER_CPU_MAX" help:"most processors"`
	MaxProcesses   int           `env:"deployer.max.processes" range:"16 4194304" was:"DEPLOYER_PROCESSES_MAX" help:"most processes with threads"`
	MaxReplicas    int           `env:"deployer.max.replicas" range:"1 100" was:"DEPLOYER_REPLICAS_MAX" help:"most pods"`
	LeaseTime      time.Duration `env:"deployer.leaseTime" envDefault:"4s" range:"500ms 1h" was:"DEPLOYER_LEASE_TIME" help:"how long a replica may be silent until another one takes over its deployments, the same for all replicas"`
	PrepareTimeout time.Duration `env:"deployer.prepareTimeout" envDefault:"10m" range:"1s 24h" was:"DEPLOYER_PREPARE_TIMEOUT" help:"how long a node of Kubernetes may pull the image of a runtime and mount its volumes, before the minute that its agent has to become ready begins"`
	SandboxRead    daemon.List   `env:"sandbox.read" was:"HUB_SANDBOX_READ" help:"files and directories that every agent of the deployer process can be permitted to read, in addition to the system and the toolchains on PATH"`
	SandboxWrite   daemon.List   `env:"sandbox.write" was:"HUB_SANDBOX_WRITE" help:"files and directories that they can be permitted to change"`
	SandboxUsers   userIDs       `env:"sandbox.users" envDefault:"1900000000-1900065535" was:"HUB_SANDBOX_USERS" help:"user ids of which each deployment gets one if the hub is root, or none; no other program should have one of them"`

	DockerHost    string          `env:"DOCKER_HOST" key:"docker.host" help:"address of the Docker engine of this machine, or of the container of the hub (default unix:///var/run/docker.sock)"`
	DockerTLS     bool            `env:"DOCKER_TLS_VERIFY" key:"docker.tlsVerify" help:"1 for an engine at tcp://... with TLS"`
	DockerCerts   string          `env:"DOCKER_CERT_PATH" key:"docker.certPath" help:"directory of ca.pem, cert.pem and key.pem for it (default ~/.docker)"`
	DockerSubnets daemon.Networks `env:"docker.subnets" was:"DOCKER_SUBNETS" help:"ranges of addresses, divided into networks of 64 for tenants (default 10.213.0.0/16)"`
	DockerHub     string          `env:"docker.hubContainer" was:"DOCKER_HUB_CONTAINER" help:"container of the hub, which is connected to the networks of the runtimes, or none, which publishes their ports on the loopback address (default: the container in which the hub runs, if it does)"`

	Kubeconfig       string          `env:"KUBECONFIG" key:"kubernetes.config" help:"path of the file with the address and the credentials of the Kubernetes API server (default: those of the pod in which the hub runs)"`
	KubeNamespace    string          `env:"KUBERNETES_NAMESPACE" key:"kubernetes.namespace" help:"namespace of the runtimes (default: that of the pod of the hub)"`
	KubeStorage      daemon.Memory   `env:"KUBERNETES_STORAGE_SIZE" key:"kubernetes.storageSize" help:"size of the volume of a deployment, whose pods are on one node then (default none: files end with the pod)"`
	KubeStorageClass string          `env:"kubernetes.storageClass" was:"KUBERNETES_STORAGE_CLASS" help:"its storage class (default: that of the cluster)"`
	KubeScratch      daemon.Memory   `env:"kubernetes.scratch" envDefault:"2Gi" was:"KUBERNETES_SCRATCH" help:"limit of the files of a pod that are not in that volume"`
	KubeClass        string          `env:"kubernetes.runtimeClass" was:"KUBERNETES_RUNTIME_CLASS" help:"runtime class of the pods (default: that of the cluster)"`
	KubeInternal     daemon.Networks `env:"kubernetes.internalNetworks" was:"KUBERNETES_INTERNAL_NETWORKS" help:"networks that runtimes do not reach, in addition to the private and the link-local ones (default none)"`
	KubeAddress      string          `env:"kubernetes.address" envDefault:"service" options:"service pod" was:"KUBERNETES_ADDRESS" help:"pod if the hub is outside of the cluster and reaches pods, but no Services"`
	BusURL           string          `env:"AGENT_BUS_URL" key:"bus.url" secret:"file" help:"NATS server with JetStream that connects the pods of a runtime, so that a cancel reaches the one with the run: nats://user:password@host:4222/bucket, see the README of the command runtime (default none)"`
	BusSeed          string          `env:"AGENT_BUS_ACCOUNT_SEED" key:"bus.accountSeed" secret:"file" help:"seed of a signing key of the NATS account, with which the hub issues each deployment credentials for its part of the bus (default: all deployments have the user of AGENT_BUS_URL)"`
	BusAccount       string          `env:"bus.account" was:"AGENT_BUS_ACCOUNT" help:"public key of that account (default: that of the seed)"`

	GatewayURL    daemon.URL `env:"GATEWAY_URL" key:"gateway.url" help:"public address of a gateway in front of the agents (default /runtime of the hub)"`
	GatewayKind   string     `env:"GATEWAY_KIND" key:"gateway.kind" options:"kong apisix httproute" help:"kong, apisix, or httproute of the Gateway API of Kubernetes: the hub has a route for each agent there (default: it changes no gateway)"`
	GatewayParent string     `env:"GATEWAY_PARENT" key:"gateway.parent" help:"NAMESPACE/NAME of the Gateway of these HTTPRoutes, or NAMESPACE/NAME/LISTENER"`
	GatewayAdmin  daemon.URL `env:"GATEWAY_ADMIN_URL" key:"gateway.adminUrl" help:"base URL of the admin interface of the gateway"`
	GatewayKey    string     `env:"GATEWAY_ADMIN_KEY" key:"gateway.adminKey" secret:"file" help:"its key, if it needs one"`

	UserAnswers   int    `env:"limits.answersPerUser" envDefault:"20" range:"1 100000" was:"HUB_ANSWERS_PER_USER" help:"answers of chats of a user in progress at once"`
	AgentAnswers  int    `env:"limits.answersPerAgent" envDefault:"200" range:"1 100000" was:"HUB_ANSWERS_PER_AGENT" help:"answers of an agent in progress at once"`
	UserRequests  int    `env:"limits.requestsPerUser" envDefault:"300" range:"0 100000" was:"HUB_REQUESTS_PER_USER" help:"messages, uploads and pushes of chats of a user within a minute, to each replica, or 0 for no limit"`
	AddrRequests  int    `env:"limits.requestsPerAddress" envDefault:"3000" range:"0 100000" was:"HUB_REQUESTS_PER_ADDRESS" help:"the same from an address, with sign-ins of programs and runs at /runtime"`
	ModelPrices   prices `env:"usage.prices" was:"HUB_MODEL_PRICES" help:"prices for a million tokens, {MODEL: {input: 3, cacheRead: 0.3, cacheWrite: 3.75, output: 15}}; MODEL* is a prefix (default: list prices of well-known models in US dollars)"`
	UsageDays     int    `env:"usage.retentionDays" envDefault:"400" range:"1 36500" was:"HUB_USAGE_RETENTION_DAYS" help:"age in days at which the tokens of single runs are deleted; the sums of days remain"`
	RetentionDays int    `env:"AUDIT_RETENTION_DAYS" key:"auditRetentionDays" range:"1 36500" help:"age in days at which audit entries are pruned (default never)"`
	ProbePrivate  bool   `env:"HUB_PROBE_ALLOW_PRIVATE" key:"probePrivate" envDefault:"false" help:"true permits probes of providers at private and loopback addresses"`

	telemetry.Settings

	*daemon.Origins

	// Getenv returns the variables of the environment.
	Getenv func(string) string

	drivers      Drivers
	checkOnly    bool
	authenticate func(*http.Request) (*hub.Caller, error) // of a program that embeds the hub, or nil
}

// databaseURL returns the URL of the database.
func (s *Settings) databaseURL() string {
	return cmp.Or(s.DatabaseURL, "sqlite://"+filepath.Join(s.DataDir, "hub.db"))
}

// databaseFile returns the path of the SQLite database, or "" with PostgreSQL.
func (s *Settings) databaseFile() string {
	if path, ok := strings.CutPrefix(s.databaseURL(), "sqlite://"); ok {
		return path
	}

	return ""
}

// shared reports whether several replicas may use the database.
func (s *Settings) shared() bool { return !strings.HasPrefix(s.databaseURL(), "sqlite:") }

// read reads the settings. Their faults are those of check.
func (s *Settings) read(flags *pflag.FlagSet) { s.Origins = daemon.Read(s, s.Getenv, flags) }

// check returns an error with all settings that are invalid or unsafe, each with the remedy.
func (s *Settings) check() error {
	s.checkAddress()
	s.checkMode()
	s.checkDatabase()
	s.checkDeployer()
	s.checkGateway()
	s.drivers.Check(&s.Settings, &s.MetricsAddr, s.Origins)
	s.bucket()
	s.values(&hub.Config{})
	if s.OpsKey != "" && s.OpsKey == s.PushKey {
		s.Fault(&s.PushKey, "it equals OPS_API_KEY: a caller that may push chats could then register identity providers; use two keys")
	}

	return s.Err()
}

// checkAddress checks the addresses of the hub.
func (s *Settings) checkAddress() {
	if _, _, err := net.SplitHostPort(s.MetricsAddr); s.MetricsAddr != "" && err != nil {
		s.Fault(&s.MetricsAddr, "%q is not an address: use host:port, such as 127.0.0.1:9464", s.MetricsAddr)
	}

	if len(s.MetricsHosts) > 0 && s.MetricsAddr == "" {
		s.Fault(&s.MetricsHosts, "it has no effect without HUB_METRICS_ADDR")
	}

	host, _, err := net.SplitHostPort(s.Addr)
	switch local := loopback(host); {
	case err != nil:
		s.Fault(&s.Addr, "%q is not an address: use host:port, such as 127.0.0.1:8080", s.Addr)
	case s.PublicURL != "" || local:
	case s.AuthMode == modeExternal:
		s.Fault(&s.PublicURL, "it is required in external mode on an address that is not loopback: identity providers redirect to it")
	case s.shared():
		s.Fault(&s.PublicURL, "it is required with PostgreSQL on an address that is not loopback: each replica would return links to itself")
	}
}

func (s *Settings) checkDatabase() {
	scheme, _, ok := strings.Cut(s.databaseURL(), "://")
	switch {
	case !ok || !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, scheme):
		s.Fault(&s.DatabaseURL, "it is neither sqlite://PATH nor postgres://USER:PASSWORD@HOST/DATABASE")
	case s.shared() && s.EncryptionKeys == "":
		s.Fault(&s.EncryptionKeys, "it is required with PostgreSQL, because all replicas need the same one: generate it with openssl rand -base64 32, and store it safely")
	case s.EncryptionKeys != "": // otherwise it is generated
		_, err := s.existingKeys()
		s.Invalid(&s.EncryptionKeys, err)
	}
}
