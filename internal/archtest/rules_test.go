package archtest_test

// rule permits the packages to import the imports. Packages are named relative to the module:
// "a/..." is a and every package below it. The longest matching name applies. Packages whose name
// ends in test, tests, cmd and examples may import everything.
type rule struct{ packages, imports, reason string }

// Sets of packages that several rows share.
const (
	concern      = "hub/wire hub/internal/bodies hub/internal/code hub/internal/api internal/db internal/secret hub/internal/store hub/internal/audit sse filesafe rbac auditlog/... internal/..."
	formats      = "runtime/agent runtime/wire"
	telemetryAPI = "go.opentelemetry.io/otel/attribute go.opentelemetry.io/otel/codes go.opentelemetry.io/otel/metric/... " +
		"go.opentelemetry.io/otel/propagation go.opentelemetry.io/otel/trace/..."
	database = "database/sql github.com/jackc/... modernc.org/sqlite/..." // not database/sql/driver, whose Valuer every id type names
)

// arrows lists the packages of this module that each package may import.
var arrows = []rule{
	{"sse filesafe", "internal/leaf/...", "a leaf is small enough to be reviewed"},
	{"rbac", "", "permissions do not depend on a server"},
	{"auditlog", "internal/leaf/...", "the log depends neither on its database nor on the logged actions"},
	{"auditlog/...", "auditlog internal/leaf/...", "a store on any *sql.DB, also that of other servers"},

	{"runtime", formats + " runtime/internal/engine runtime/model runtime/model/adapter runtime/internal/permission runtime/internal/registry runtime/internal/upload runtime/run runtime/session runtime/tool " +
		"runtime/internal/builtin sse filesafe internal/...", "sandboxed tools and MCP are set in Config: an embedder without them links neither"},
	{"runtime/agent", "runtime/internal/permission runtime/wire internal/...", "an agent is data: it is read and checked where no model or tool is linked"},
	{"runtime/client", "runtime/wire sse internal/...", "a client does not link the server"},
	{"runtime/internal/engine", "runtime/internal/collect runtime/model runtime/tool runtime/internal/permission runtime/session runtime/wire internal/...",
		"the run loop depends on interfaces, not on adapters or HTTP"},
	{"runtime/host", "runtime runtime/agent runtime/session runtime/skill/archive runtime/tool/confine runtime/tool/js runtime/tool/js/worker " +
		"runtime/tool/mcp internal/...", "the only library with every tool: a command or an embedder that wants all of them"},
	{"runtime/model runtime/tool", "internal/jsonlimit internal/logquota", "an external adapter or tool needs only this package"},
	{"runtime/model/...", "runtime/model runtime/model/internal/... runtime/internal/collect sse internal/...", "an adapter translates one wire format and does not depend on runs"},
	{"runtime/model/adapter", "runtime/agent runtime/model runtime/model/anthropic runtime/model/openai runtime/model/demo internal/...",
		"the only place that knows every protocol"},
	{"runtime/internal/permission/...", "runtime/internal/permission/... internal/domain internal/jsonlimit internal/leaf/longpath", "rules apply to the name and the JSON input of any tool"},
	{"runtime/protocol/openai", "runtime/wire sse internal/...", "a protocol is a handler over the runs of any host, also of one that links no engine"},
	{"runtime/run", "runtime/wire internal/...", "a bus does not depend on runs"},
	{"runtime/internal/registry", "runtime/run runtime/wire internal/...", "the registry does not depend on the execution of runs"},
	{"runtime/internal/collect", "runtime/model internal/...", "a response is made of the parts of the model"},
	{"runtime/run/natsbus", "runtime/run runtime/wire internal/...", "only an embedder with replicas links the client of a bus"},
	{"runtime/internal/upload", "runtime/wire internal/...", "the store does not depend on the runs that use its files"},
	{"runtime/session", "runtime/model runtime/internal/collect internal/...", "a transcript is made of the model's messages"},
	{"runtime/skill/archive", "runtime/agent internal/...", "only an embedder that configures archives links their format"},
	{"runtime/internal/builtin", "runtime/tool filesafe internal/...", "tools depend on the tool interface and on the resources they use"},
	{"runtime/tool/confine runtime/tool/js/... runtime/tool/mcp", formats + " runtime/internal/permission runtime/tool runtime/tool/js/... sse internal/...",
		"only an embedder that configures these tools links their engine, protocol or launcher"},
	{"runtime/wire", "internal/...", "both ends of the network share one description"},

	{"hub", concern + " hub/...", "the only place that imports every concern"},
	{"hub/internal/bodies", "hub/wire rbac", "the hub and its client share them, and programs do not"},
	{"hub/internal/code", "hub/wire internal/...", "the status and the message of an error are decided in one place"},
	{"hub/internal/api", "hub/wire hub/internal/code auditlog rbac internal/...", "the shared code of handlers does not depend on a concern"},
	{"internal/db", "internal/...", "the database layer has no tables: each concern has its own migrations"},
	{"internal/secret hub/internal/aigc/label", "", "keys and labels do not depend on the hub"},
	{"hub/internal/store hub/internal/audit", concern, "what every concern receives depends on none"},
	{"hub/internal/user hub/internal/session hub/internal/password hub/internal/token hub/internal/clitoken hub/internal/external", concern + " hub/internal/user hub/internal/session hub/internal/password hub/internal/token hub/internal/clitoken",
		"the packages of sign-in use no other concern"},
	{"hub/internal/artifact", concern + " hub/blob", "files do not depend on their users"},
	{"hub/blob/...", "hub/blob internal/...", "a store of blobs does not depend on the hub"},
	{"hub/internal/backup", concern + " hub/blob hub/internal/artifact", "an archive has the database and the files of every concern, whose names it is given"},
	{"internal/doctor", "internal/...", "a result does not depend on what was checked"},
	{"hub/internal/settings", "hub/wire hub/internal/api auditlog runtime/agent internal/domain", "the rules for settings of the runtime do not depend on who stores them"},
	{"hub/internal/gateway", concern + " hub/internal/usage runtime/wire", "the proxy counts runs, and reads no event"},
	{"hub/internal/console", concern + " hub/internal/session hub/internal/external", "pages use the API, and only their sessions are their own"},
	{"hub/gateway/...", "hub/deploy hub/gateway/internal/... internal/...", "a driver of a gateway depends only on deployments and its admin interface"},
	{"hub/internal/provider", concern + " hub/internal/settings runtime/agent runtime/model/adapter", "an independent concern, which checks a provider as the runtime does"},
	{"hub/internal/aigc", concern + " hub/internal/aigc/label", "labels do not depend on chats"},
	{"hub/internal/catalog/...", concern + " hub/internal/catalog/... hub/blob hub/internal/artifact hub/internal/provider hub/internal/settings " + formats, "a catalog does not depend on deployments, which use it"},
	{"hub/internal/catalog/archive", "internal/...", "an archive is checked without a hub"},
	{"hub/deploy/...", "hub/deploy hub/deploy/internal/... runtime/agent internal/...", "a driver of a platform depends only on what it runs"},
	{"hub/internal/deployment", concern + " hub/deploy hub/internal/catalog runtime/client " + formats,
		"a deployment has an agent of the catalog"},
	{"hub/internal/usage", concern + " runtime/wire", "the counts of runs do not depend on who runs them"},
	{"hub/wire", "rbac runtime/agent runtime/wire internal/...", "the hub and its clients share one description, and what agents contain is that of the runtime"},
	{"hub/client", "hub/wire hub/internal/bodies auditlog rbac runtime/agent runtime/wire sse internal/...", "a client does not link the server"},
	{"hub/internal/chat/...", concern + " hub/internal/chat/... hub/internal/deployment hub/internal/aigc hub/internal/usage runtime/client runtime/protocol/openai " + formats, "chats are the last consumer of the other concerns"},

	{"internal/...", "internal/...", "shared code depends on no server"},
}

// modules lists the packages that may import a third-party package. A package without a row must
// not be imported. Tests may import every package with a row.
var modules = []rule{
	{"cmd/...", "github.com/spf13/cobra github.com/spf13/pflag github.com/caarlos0/env/v11 github.com/mattn/go-isatty golang.org/x/term github.com/rs/zerolog/... " +
		"golang.org/x/sys/... go.yaml.in/yaml/v3 modernc.org/sqlite/... github.com/jackc/...",
		"command line, environment and terminal belong to the command"},
	{"cmd/internal/hubcmd/drivers", "github.com/aws/aws-sdk-go-v2/aws/transport/http github.com/aws/aws-sdk-go-v2/config",
		"credentials come from the environment of the command"},
	{"cmd/internal/telemetry", telemetryAPI, "exporters are in a package that not every program links"},
	{"cmd/internal/telemetry/export", "github.com/prometheus/client_golang/... go.opentelemetry.io/otel/... golang.org/x/time/rate",
		"providers and exporters are built in one place; the libraries import only the API"},
	{"runtime/... hub/... internal/db internal/meter internal/outbound", telemetryAPI, "libraries record metrics and spans, and do not export them"},
	{"examples/...", "net/http/httptest", "an example needs no open port"},
	{"examples/audit", "github.com/jackc/pgx/v5/stdlib", "the caller of an audit log brings its driver"},
	{"internal/httpapi runtime runtime/protocol/openai hub hub/internal/api", "github.com/julienschmidt/httprouter", "the router stays behind http.Handler"},
	{"runtime/protocol/openai", "github.com/coder/websocket", "only the protocol that has connections of this kind"},
	{"internal/jsonlimit", "github.com/go-json-experiment/json/...", "names of JSON are compared exactly, and once, in one place"},
	{"internal/ids", "github.com/google/uuid", "ids are generated in one place"},
	{"runtime/agent internal/skill hub/internal/catalog/... hub/deploy/process hub/deploy/docker hub/deploy/kubernetes internal/apidocs", "go.yaml.in/yaml/v3", "YAML is a file format, and these read files"},
	{"internal/db", "github.com/jackc/... modernc.org/sqlite/...", "databases are opened in one place"},
	{"hub/internal/token", "github.com/golang-jwt/jwt/v5", "tokens are created and verified in one place"},
	{"hub/internal/password", "golang.org/x/crypto/argon2", "passwords are hashed in one place"},
	{"runtime/tool/js/...", "modernc.org/quickjs/... github.com/evanw/esbuild/... github.com/tdewolff/parse/v2/... golang.org/x/sys/...", "scripts are compiled and run in a worker"},
	{"runtime/tool/mcp", "github.com/modelcontextprotocol/go-sdk/... github.com/google/jsonschema-go/jsonschema golang.org/x/oauth2/...", "an adapter adds its own dependency and no other; oauth2 has the types of its token sources"},
	{"runtime/run/natsbus", "github.com/nats-io/nats.go/... github.com/nats-io/jwt/v2 github.com/nats-io/nkeys", "an adapter adds its own dependency and no other"},
	{"internal/toolschema", "github.com/google/jsonschema-go/jsonschema", "inputs are validated in one place"},
	{"runtime/internal/builtin", "github.com/bmatcuk/doublestar/v4 golang.org/x/net/html/... github.com/JohannesKaufmann/html-to-markdown/v2/...", "globs and web pages"},
	{"runtime/internal/permission/...", "github.com/bmatcuk/doublestar/v4 golang.org/x/text/unicode/norm", "globs, and names as file systems compare them"},
	{"internal/skillzip", "golang.org/x/text/unicode/norm", "names are compared as file systems compare them"},
	{"internal/sandbox/...", "github.com/landlock-lsm/go-landlock/... github.com/elastic/go-seccomp-bpf/... golang.org/x/net/bpf golang.org/x/sys/...",
		"commands are confined in one place"},
	{"internal/child internal/httpserve hub/internal/backup", "golang.org/x/sys/...", "system calls that the standard library does not provide"},
	{"hub/internal/external", "github.com/coreos/go-oidc/v3/... golang.org/x/oauth2/... github.com/go-jose/go-jose/v4/...", "an adapter adds its own dependency and no other"},
	{"hub/internal/deployment", "golang.org/x/sync/singleflight", "callers at the same time share one call of the driver"},
	{"hub/deploy/docker", "github.com/moby/moby/client/... github.com/moby/moby/api/... github.com/containerd/errdefs",
		"an adapter adds its own dependency and no other"},
	{"hub/deploy/kubernetes", "k8s.io/apimachinery/... k8s.io/client-go/dynamic k8s.io/client-go/metadata k8s.io/client-go/rest k8s.io/client-go/tools/cache",
		"an adapter adds its own dependency and no other; the typed clients of all kinds would add 16 MB"},
	{"cmd/internal/hubcmd/drivers", "k8s.io/client-go/rest k8s.io/client-go/tools/clientcmd k8s.io/klog/v2", "the address of a cluster is read from files and the environment"},
	{"hub/blob/s3blob", "github.com/aws/...", "an adapter adds its own dependency and no other"},
}

// testModules may be imported by tests and by packages whose name ends in test.
const testModules = "testing/... net/http/httptest github.com/stretchr/testify/require github.com/google/go-cmp/... go.uber.org/goleak " +
	"pgregory.net/rapid github.com/getkin/kin-openapi/... github.com/chromedp/... github.com/nats-io/nats-server/v2/... " +
	"github.com/nats-io/jwt/v2 github.com/nats-io/nkeys go.opentelemetry.io/... google.golang.org/protobuf/proto " +
	"github.com/prometheus/common/expfmt github.com/prometheus/common/model github.com/prometheus/client_model/go"

// unreachable lists packages that must not be linked, directly or indirectly.
var unreachable = []rule{
	{"sse filesafe rbac auditlog", thirdParty, "a leaf needs only the standard library"},
	{"runtime/...", database + " hub/...", "a runtime needs neither the control plane nor a database"},
	{"runtime", "runtime/tool/js/... runtime/tool/mcp runtime/tool/confine internal/sandbox/...", "an embedder links only the tools that it configures"},
	{"runtime runtime/host hub/client hub/wire hub/deploy/... hub/gateway/...", "runtime/protocol/...", "only a program that serves a protocol links it, as the hub does"},
	{"runtime runtime/run runtime/host hub/...", "github.com/nats-io/...", "only an embedder with replicas links the client of a bus"},
	{"hub/...", "runtime runtime/internal/engine runtime/internal/registry runtime/run runtime/tool/...", "a running runtime is accessed only through runtime/client"},
	{"hub/...", "k8s.io/client-go/kubernetes/... k8s.io/api/...", "the types of all kinds of objects would double the program"},
	{"runtime/... hub/...", "go.opentelemetry.io/otel/sdk/... go.opentelemetry.io/otel/exporters/... go.opentelemetry.io/proto/... google.golang.org/grpc/...",
		"the caller decides what becomes of metrics and spans"},
	{"cmd/agenthost", "github.com/aws/... github.com/moby/... github.com/nats-io/... github.com/prometheus/... go.opentelemetry.io/otel/sdk/... " +
		"google.golang.org/... k8s.io/...", "the first command of a new user compiles no driver that a laptop does not need"},
	{"auditlog/...", "github.com/jackc/... modernc.org/sqlite/...", "the driver is the caller's choice"},
}

// forbidden lists names of the standard library that a library must not use. A * at the end matches
// any rest. An exception is a package after "except".
var forbidden = []rule{
	{"except internal/db/pgtest", "os.Getenv os.LookupEnv os.Environ os.ExpandEnv os.UserHomeDir os.UserConfigDir os.UserCacheDir exec.LookPath",
		"the environment belongs to the command, which passes it on"},
	{"", "http.ProxyFromEnvironment http.DefaultTransport http.DefaultClient http.Get http.Head http.Post http.PostForm",
		"they have no timeout, and a proxy from the environment"},
	{"except hub/deploy/process", "http.ListenAndServe* http.Serve http.ServeTLS net.Listen net.ListenConfig net.ListenIP net.ListenMulticastUDP net.ListenPacket " +
		"net.ListenTCP net.ListenUDP net.ListenUnix net.ListenUnixgram", "the caller decides where to listen"},
	{"except internal/db/pgtest", "os.Exit signal.* os.Stdin os.Stdout os.Stderr fmt.Print*", "the process and the terminal belong to the command"},
	{"", "log.Print* log.Fatal* log.Panic* slog.Debug* slog.Info* slog.Warn* slog.Error* slog.SetDefault http.Handle http.HandleFunc",
		"a library logs to the *slog.Logger of its Config, and returns handlers"},
}
