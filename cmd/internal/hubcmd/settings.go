package hubcmd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/api"
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
Environment (flags take precedence):
  HUB_ADDR                 address to listen on, as --addr
  HUB_DATA_DIR             directory of the database and generated secrets (default ./data)
  HUB_LOG_LEVEL            lowest level of the log, as --log-level: debug, info (default), warn or error
  DATABASE_URL             sqlite://PATH or postgres://... (default hub.db in HUB_DATA_DIR)
  PROVIDER_ENCRYPTION_KEY  keys for secrets in the database, base64 of 32 bytes each, separated by commas: the first
                           encrypts, all decrypt (with SQLite by default generated in HUB_DATA_DIR)
  NAME_FILE                path of a file with the value of a secret, for DATABASE_URL, each *_KEY, HUB_SETUP_TOKEN,
                           IDP_CLIENT_SECRET, AGENT_BUS_* and AWS_*, in place of NAME
  AUTH_MODE                builtin (default) or external: users sign in with the identity provider of their organization
  IDP_ISSUER, IDP_CLIENT_ID, IDP_CLIENT_SECRET
                           OpenID Connect client of the organization default in external mode; all three or none
  IDP_CERT                 certificate or public key in PEM that verifies its tokens (default: the published keys)
  IDP_GROUPS_CLAIM         claim with the groups of its users, which agents may be limited to (default none)
  EXTERNAL_BOOTSTRAP_ADMINS
                           users, as org/sub:SUBJECT or org/username, who become admin at their first external login; both
                           are compared exactly, and a subject is never given to another user
  HUB_PUBLIC_URL           public address, the base of links (default http://ADDR)
  HUB_SETUP_TOKEN          token for the first-run setup (default: generated and printed at startup)
  HUB_TRUSTED_PROXIES      networks of proxies, such as 10.0.0.0/8, whose X-Forwarded-For is trusted
  HUB_CORS_ORIGINS         origins, such as https://app.example.com, whose pages may send requests
  HUB_PROBE_ALLOW_PRIVATE  true permits probes of providers at private and loopback addresses (default false)
  BLOB_URL                 file://PATH or s3://BUCKET/PREFIX?region=REGION&endpoint=URL, the files of tools and skills
                           (default blobs in HUB_DATA_DIR)
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
                           credentials of the bucket (default: the standard chain of AWS: AWS_PROFILE and the shared files,
                           the role of a web identity, of a container or of the machine)
  OSS_CDN_HOST             public host of the files of tools, such as a CDN (default /artifacts of the hub)
  DEPLOYER                 process runs deployed agents on this machine, docker in containers, kubernetes in pods; none
                           (default process)
  DOCKER_HOST              address of the Docker engine of this machine, or of the container of the hub (default
                           unix:///var/run/docker.sock)
  DOCKER_TLS_VERIFY, DOCKER_CERT_PATH
                           1, and the directory of ca.pem, cert.pem and key.pem, for DOCKER_HOST=tcp://... with TLS
                           (default ~/.docker)
  DOCKER_IMAGE             image of the runtimes, which the engine has (default agenthost-runtime)
  DOCKER_MEMORY, DOCKER_CPUS, DOCKER_PROCESSES
                           limits of the container of a runtime: MiB, processors, and processes with threads (default
                           1024, 1 and 512)
  DOCKER_SUBNETS           ranges of addresses, divided into networks of 64 for tenants (default 10.213.0.0/16)
  DOCKER_HUB_CONTAINER     container of the hub, which is connected to the networks of the runtimes; none publishes their
                           ports on the loopback address (default: the container in which the hub runs, if it does)
  KUBECONFIG               path of the file with the address and the credentials of the Kubernetes API server (default: those of
                           the pod in which the hub runs)
  KUBERNETES_NAMESPACE     namespace of the runtimes (default: that of the pod of the hub)
  KUBERNETES_IMAGE         image of the runtimes (default agenthost-runtime)
  KUBERNETES_REPLICAS      pods of a runtime; several require AGENT_BUS_URL (default 1)
  AGENT_BUS_URL            NATS server with JetStream that connects these pods, so that a cancel reaches the one with the run:
                           nats://user:password@host:4222/bucket, see the README of the command runtime (default none)
  AGENT_BUS_ACCOUNT_SEED   seed of a signing key of the NATS account, with which the hub issues each deployment credentials for
                           its part of the bus (default: all deployments have the user of AGENT_BUS_URL)
  AGENT_BUS_ACCOUNT        public key of that account (default: that of AGENT_BUS_ACCOUNT_SEED)
  KUBERNETES_MEMORY, KUBERNETES_CPUS
                           limits of a pod, such as 512Mi and 500m (default 1Gi and 1)
  KUBERNETES_SCRATCH       limit of the files of a pod that are not in a volume of its deployment (default 2Gi)
  KUBERNETES_RUNTIME_CLASS runtime class of the pods (default: that of the cluster)
  KUBERNETES_STORAGE_SIZE, KUBERNETES_STORAGE_CLASS
                           size and storage class of the volume of a deployment, whose pods are on one node then (default
                           none: files end with the pod)
  KUBERNETES_INTERNAL_NETWORKS
                           networks that runtimes do not reach, in addition to the private and the link-local ones, separated
                           by commas (default none)
  KUBERNETES_ADDRESS       pod if the hub is outside of the cluster and reaches pods, but no Services (default service)
  DEPLOYER_MEMORY_MAX, DEPLOYER_CPU_MAX, DEPLOYER_PROCESSES_MAX, DEPLOYER_REPLICAS_MAX
                           most that the deployment settings of an agent may have, such as 4Gi, 2000m, 1024 and 3 (default: the
                           settings of docker and kubernetes above; for process, no bounds), and for process the memory
                           and the processes of agents without these settings
  DEPLOYER_LEASE_TIME      how long a replica may be silent until another one takes over its deployments, the same for
                           all replicas (default 4s)
  DEPLOYER_PREPARE_TIMEOUT how long a node of Kubernetes may pull the image of a runtime and mount its volumes, before the
                           minute that its agent has to become ready begins (default 10m)
  HUB_SANDBOX_READ, HUB_SANDBOX_WRITE
                           files and directories, as in PATH, that every deployed agent of this machine can be permitted
                           to read, and to change, in addition to the system and the toolchains on PATH
  HUB_SANDBOX_USERS        user ids of which each deployment gets one if the hub is root, or none (default
                           1900000000-1900065535); no other program should have one of them
  GATEWAY_URL              public address of a gateway in front of the agents (default /runtime of the hub)
  GATEWAY_KIND             kong, apisix, or httproute of the Gateway API of Kubernetes: the hub has a route for each agent there
                           (default: it changes no gateway)
  GATEWAY_PARENT           NAMESPACE/NAME of the Gateway of these HTTPRoutes, or NAMESPACE/NAME/LISTENER
  GATEWAY_ADMIN_URL, GATEWAY_ADMIN_KEY
                           base URL of the admin interface of the gateway, and its key if it needs one
  RUNTIME_APIKEY_VISIBLE_TO_MEMBER
                           false hides the API keys of deployments from members (default true)
  HUB_ANSWERS_PER_USER, HUB_ANSWERS_PER_AGENT
                           answers of chats in progress at once (default 20 and 200)
  HUB_REQUESTS_PER_USER, HUB_REQUESTS_PER_ADDRESS
                           messages and pushes of chats, sign-ins of programs, and of an address also runs at /runtime, within a minute,
                           to each replica, or none (default 300 and 3000)
  HUB_MODEL_PRICES         prices for a million tokens as JSON, {"MODEL": {"input": 3, "cacheRead": 0.3, "cacheWrite": 3.75,
                           "output": 15}}; MODEL* is a prefix (default: list prices of well-known models in US dollars)
  HUB_DRAIN_TIMEOUT        how long answers of chats and runs at /runtime may continue after SIGTERM, SIGINT or SIGHUP before
                           they are cancelled, at most 30m, as --drain-timeout (default 30s)
  HUB_METRICS_ADDR         private address of GET /metrics for Prometheus, without a key, as --metrics-addr (default off)
  HUB_METRICS_HOSTS        host names under which Prometheus calls it, in addition to addresses and localhost
  OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
                           base URL, and URL for traces, to which spans are sent with OTLP over HTTP (default off)
  OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_TRACES_EXPORTER, OTEL_SDK_DISABLED,
  OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
                           as in the specification of OpenTelemetry; runtimes of DEPLOYER=process have them except the headers
  AUDIT_RETENTION_DAYS     age in days at which audit entries are pruned (default never)
  HUB_USAGE_RETENTION_DAYS age in days at which the tokens of single runs are deleted; the sums of days remain (default 400)
  OPS_API_KEY, CHAT_PUSH_API_KEY
                           two different keys of at least 32 characters; the first enables the operations interface,
                           which registers the clients of organizations

Examples:
  {{.CommandPath}}                                      SQLite in ./data
  {{.CommandPath}} --check                              every error in the settings
  {{.CommandPath}} doctor                               what is wrong with the installation
  DATABASE_URL=postgres://... {{.CommandPath}}          as one of several replicas
  {{.CommandPath}} reset-password admin                 if no admin can log in
  {{.CommandPath}} admin-token acme/ada                 if the identity provider is unavailable
{{end}}`

// settings come from the environment, and then from flags.
type settings struct {
	Addr           string `env:"HUB_ADDR" envDefault:"127.0.0.1:8080"`
	DataDir        string `env:"HUB_DATA_DIR" envDefault:"data"`
	DatabaseURL    string `env:"DATABASE_URL" secret:"file"`
	EncryptionKeys string `env:"PROVIDER_ENCRYPTION_KEY" secret:"file"`
	AuthMode       string `env:"AUTH_MODE" envDefault:"builtin"`
	PublicURL      string `env:"HUB_PUBLIC_URL"`
	IDPIssuer      string `env:"IDP_ISSUER"`
	IDPClientID    string `env:"IDP_CLIENT_ID"`
	IDPSecret      string `env:"IDP_CLIENT_SECRET" secret:"file"`
	IDPCert        string `env:"IDP_CERT"`
	IDPGroups      string `env:"IDP_GROUPS_CLAIM"`
	Admins         string `env:"EXTERNAL_BOOTSTRAP_ADMINS"`
	SetupToken     string `env:"HUB_SETUP_TOKEN" secret:"file"`
	OpsKey         string `env:"OPS_API_KEY" secret:"file"`
	PushKey        string `env:"CHAT_PUSH_API_KEY" secret:"file"`
	TrustedProxies string `env:"HUB_TRUSTED_PROXIES"`
	CORSOrigins    string `env:"HUB_CORS_ORIGINS"`
	UserAnswers    string `env:"HUB_ANSWERS_PER_USER"`
	AgentAnswers   string `env:"HUB_ANSWERS_PER_AGENT"`
	UserRequests   string `env:"HUB_REQUESTS_PER_USER"`
	AddrRequests   string `env:"HUB_REQUESTS_PER_ADDRESS"`
	ModelPrices    string `env:"HUB_MODEL_PRICES"`
	RetentionDays  string `env:"AUDIT_RETENTION_DAYS"`
	UsageDays      string `env:"HUB_USAGE_RETENTION_DAYS" envDefault:"400"`
	ProbePrivate   string `env:"HUB_PROBE_ALLOW_PRIVATE"`
	BlobURL        string `env:"BLOB_URL"`
	CDNHost        string `env:"OSS_CDN_HOST"`
	Deployer       string `env:"DEPLOYER" envDefault:"process"`
	SandboxRead    string `env:"HUB_SANDBOX_READ"`
	SandboxWrite   string `env:"HUB_SANDBOX_WRITE"`
	SandboxUsers   string `env:"HUB_SANDBOX_USERS" envDefault:"1900000000-1900065535"`
	DockerHost     string `env:"DOCKER_HOST" envDefault:"unix:///var/run/docker.sock"`
	DockerTLS      string `env:"DOCKER_TLS_VERIFY"`
	DockerCerts    string `env:"DOCKER_CERT_PATH"`
	DockerSubnets  string `env:"DOCKER_SUBNETS"`
	DockerImage    string `env:"DOCKER_IMAGE" envDefault:"agenthost-runtime"`
	DockerMemory   string `env:"DOCKER_MEMORY" envDefault:"1024"`
	DockerCPUs     string `env:"DOCKER_CPUS" envDefault:"1"`
	DockerTasks    string `env:"DOCKER_PROCESSES" envDefault:"512"`
	DockerHub      string `env:"DOCKER_HUB_CONTAINER"`

	Kubeconfig       string `env:"KUBECONFIG"`
	KubeNamespace    string `env:"KUBERNETES_NAMESPACE"`
	KubeImage        string `env:"KUBERNETES_IMAGE" envDefault:"agenthost-runtime"`
	KubeReplicas     string `env:"KUBERNETES_REPLICAS" envDefault:"1"`
	BusURL           string `env:"AGENT_BUS_URL" secret:"file"`
	BusSeed          string `env:"AGENT_BUS_ACCOUNT_SEED" secret:"file"`
	BusAccount       string `env:"AGENT_BUS_ACCOUNT"`
	KubeMemory       string `env:"KUBERNETES_MEMORY" envDefault:"1Gi"`
	KubeCPUs         string `env:"KUBERNETES_CPUS" envDefault:"1"`
	KubeScratch      string `env:"KUBERNETES_SCRATCH" envDefault:"2Gi"`
	KubeClass        string `env:"KUBERNETES_RUNTIME_CLASS"`
	KubeStorage      string `env:"KUBERNETES_STORAGE_SIZE"`
	KubeStorageClass string `env:"KUBERNETES_STORAGE_CLASS"`
	KubeInternal     string `env:"KUBERNETES_INTERNAL_NETWORKS"`
	KubeAddress      string `env:"KUBERNETES_ADDRESS" envDefault:"service"`

	GatewayURL    string `env:"GATEWAY_URL"`
	GatewayKind   string `env:"GATEWAY_KIND"`
	GatewayAdmin  string `env:"GATEWAY_ADMIN_URL"`
	GatewayParent string `env:"GATEWAY_PARENT"`
	GatewayKey    string `env:"GATEWAY_ADMIN_KEY" secret:"file"`
	KeyVisible    string `env:"RUNTIME_APIKEY_VISIBLE_TO_MEMBER"`

	AccessKeyID     string `env:"AWS_ACCESS_KEY_ID" secret:"file"`
	SecretAccessKey string `env:"AWS_SECRET_ACCESS_KEY" secret:"file"`
	SessionToken    string `env:"AWS_SESSION_TOKEN" secret:"file"`

	telemetry.Settings
	MetricsAddr  string `env:"HUB_METRICS_ADDR"`
	MetricsHosts string `env:"HUB_METRICS_HOSTS"`

	Level        daemon.Level  `env:"HUB_LOG_LEVEL" envDefault:"info"`
	LeaseTime    time.Duration `env:"DEPLOYER_LEASE_TIME" envDefault:"4s"`
	DrainTimeout time.Duration `env:"HUB_DRAIN_TIMEOUT" envDefault:"30s"`

	MaxMemory    string `env:"DEPLOYER_MEMORY_MAX"`
	MaxCPU       string `env:"DEPLOYER_CPU_MAX"`
	MaxProcesses string `env:"DEPLOYER_PROCESSES_MAX"`
	MaxReplicas  string `env:"DEPLOYER_REPLICAS_MAX"`

	PrepareTimeout time.Duration `env:"DEPLOYER_PREPARE_TIMEOUT" envDefault:"10m"`

	Check        bool
	getenv       func(string) string
	secretFiles  []string                                 // paths
	authenticate func(*http.Request) (*api.Caller, error) // of a program that embeds the hub, or nil
}

func readEnvironment(getenv func(string) string) (*settings, error) {
	s := &settings{getenv: getenv}
	var err error
	s.secretFiles, err = daemon.ReadEnvironment(getenv, s)
	return s, err
}

// databaseURL returns the URL of the database.
func (s *settings) databaseURL() string {
	return cmp.Or(s.DatabaseURL, "sqlite://"+filepath.Join(s.DataDir, "hub.db"))
}

// databaseFile returns the path of the SQLite database, or "" with PostgreSQL.
func (s *settings) databaseFile() string {
	if path, ok := strings.CutPrefix(s.databaseURL(), "sqlite://"); ok {
		return path
	}
	return ""
}

// shared reports whether several replicas may use the database.
func (s *settings) shared() bool { return !strings.HasPrefix(s.databaseURL(), "sqlite:") }

// minKey is the shortest OPS_API_KEY or CHAT_PUSH_API_KEY, and minToken the shortest
// HUB_SETUP_TOKEN, in characters.
const (
	minKey   = 32
	minToken = 16
)

// maxDrain bounds HUB_DRAIN_TIMEOUT: a run takes at most as long by default.
const maxDrain = 30 * time.Minute

// check returns an error with all settings that are invalid or unsafe, each with the remedy.
func (s *settings) check() error {
	errs := []error{s.checkMode(), s.checkKeys(), s.checkDatabase(), s.values(&hub.Config{}), s.checkDeployer(), s.checkMetrics()}
	if s.EncryptionKeys != "" { // otherwise it would be generated
		_, err := s.encryptionKeys(slog.New(slog.DiscardHandler))
		errs = append(errs, err)
	}
	if s.DrainTimeout < 0 || s.DrainTimeout > maxDrain {
		errs = append(errs, fmt.Errorf("HUB_DRAIN_TIMEOUT: %v is not from 0s to %v", s.DrainTimeout, maxDrain))
	}
	_, err := s.bucket()
	errs = append(errs, err)
	_, err = s.publicURL(&net.TCPAddr{})
	errs = append(errs, err)
	host, _, err := net.SplitHostPort(s.Addr)
	switch local := loopback(host); {
	case err != nil:
		errs = append(errs, fmt.Errorf("--addr %q is not an address: use host:port, such as 127.0.0.1:8080", s.Addr))
	case s.PublicURL != "" || local:
	case s.AuthMode == modeExternal:
		errs = append(errs, errors.New("HUB_PUBLIC_URL is required in external mode on an address that is not loopback: identity providers redirect to it"))
	case s.shared():
		errs = append(errs, errors.New("HUB_PUBLIC_URL is required with PostgreSQL on an address that is not loopback: each replica would return links to itself"))
	}
	return errors.Join(errs...)
}

// checkMode checks the mode of sign-in.
func (s *settings) checkMode() error {
	switch s.AuthMode {
	case "builtin":
		return s.checkBuiltin()
	case modeExternal:
		return s.checkExternal()
	}
	return fmt.Errorf("AUTH_MODE: %q is not a valid mode; use builtin or external", s.AuthMode)
}

// checkKeys checks the keys of callers.
func (s *settings) checkKeys() error {
	var errs []error
	for _, key := range []struct{ name, value string }{{"OPS_API_KEY", s.OpsKey}, {"CHAT_PUSH_API_KEY", s.PushKey}} {
		if n := len([]rune(key.value)); key.value != "" && n < minKey {
			errs = append(errs, fmt.Errorf("%s has %d characters, which is too short: use at least %d (openssl rand -hex 32 generates one)", key.name, n, minKey))
		}
	}
	if s.OpsKey != "" && s.OpsKey == s.PushKey {
		errs = append(errs, errors.New("OPS_API_KEY and CHAT_PUSH_API_KEY are equal: a caller that may push chats could then register identity providers; use two keys"))
	}
	if n := len([]rune(s.SetupToken)); s.SetupToken != "" && n < minToken {
		errs = append(errs, fmt.Errorf("HUB_SETUP_TOKEN has %d characters, which is too short: use at least %d, or omit it and use the printed one", n, minToken))
	}
	return errors.Join(errs...)
}

func (s *settings) checkDatabase() error {
	if scheme, _, ok := strings.Cut(s.databaseURL(), "://"); !ok || scheme != "sqlite" && scheme != "postgres" && scheme != "postgresql" {
		return errors.New("DATABASE_URL is neither sqlite://PATH nor postgres://USER:PASSWORD@HOST/DATABASE")
	}
	if s.shared() && s.EncryptionKeys == "" {
		return errors.New("PROVIDER_ENCRYPTION_KEY is required with PostgreSQL, because all replicas need the same one: generate it with openssl rand -base64 32, and store it safely")
	}
	return nil
}
