package archtest_test

// rule is a rule for a package or a set of packages. Packages are named relative to the module;
// "a/..." is a and everything below it. The most specific row applies. The reason appears in the
// message of a violation.
type rule struct{ subject, object, reason string }

type (
	reach  struct{ subject, packages, modules, reason string }
	length struct {
		in, file string // package and file name; "" is any
		limit    int
	}
)

// Sets that several rows share.
const (
	stdlib   = "(standard library)" // and internal packages with the same row
	leaves   = "sse filesafe rbac auditlog"
	concern  = "hub/api hub/db hub/secret internal/... auditlog/sqlaudit " + leaves // packages for every concern of the hub
	agents   = "runtime/agent runtime/wire"                                         // the runtime's formats, which are defined once
	adapters = "runtime/model/anthropic runtime/model/openai runtime/model/demo"    // built in, because they need only the standard library
	drivers  = "github.com/jackc/... modernc.org/sqlite/..."
	sql      = "database/sql " + drivers // not database/sql/driver, whose Valuer every id type names
)

// arrows lists the packages of this module that each package may import. Tests are exempt. Every
// package has a row, also future ones.
var arrows = []rule{
	{"sse", stdlib, "an importer of event streams gets no third-party module"},
	{"filesafe", stdlib, "the code that confines a directory is small enough to be reviewed"},
	{"rbac", stdlib, "permissions do not depend on a server"},
	{"auditlog", "internal/paging internal/deadline internal/excerpt", "the log depends on neither its database nor the logged actions, and needs no third-party module"},
	{"auditlog/auditlogtest", "auditlog", "the suite uses only the interface of stores"},
	{"auditlog/driver", "auditlog", "stores share it, and users of a store do not need it"},
	{"auditlog/memaudit", "auditlog auditlog/driver", "a store without any dependency"},
	{"auditlog/sqlaudit", "auditlog auditlog/driver internal/migrate internal/sqlerr", "a store on any *sql.DB, also that of other servers"},

	{"runtime", agents + " " + adapters + " runtime/engine runtime/model runtime/permission runtime/run runtime/session runtime/skill runtime/tool runtime/tool/builtin internal/... sse filesafe",
		"custom tools and MCP are set in Config: an embedder without them links neither"},
	{"runtime/agent", "runtime/wire internal/domain", "an agent is data: it is read and checked where no model or tool is linked"},
	{"runtime/client", "runtime/wire sse internal/outbound internal/jsonlimit", "a client does not link the server"},
	{"runtime/engine", "runtime/model runtime/tool runtime/tool/schema runtime/permission runtime/session runtime/wire internal/...", "the run loop depends on interfaces, not on adapters or HTTP"},
	{"runtime/model", "", "an external adapter needs only this package"},
	{"runtime/model/anthropic", adapter, reasons.adapter},
	{"runtime/model/openai", adapter, reasons.adapter},
	{"runtime/model/demo", adapter, reasons.adapter},
	{"runtime/model/modeltest", adapter, reasons.adapter},
	{"runtime/model/internal/...", "runtime/model sse internal/outbound internal/excerpt internal/jsonlimit", "the shared code of adapters"},
	{"runtime/permission", "runtime/permission/shell", "rules apply to the name and the JSON input of any tool"},
	{"runtime/permission/shell", "", "a language of commands is independent of the rules for them"},
	{"runtime/run", "runtime/wire internal/...", "the registry does not depend on the execution of runs"},
	{"runtime/sandbox", "runtime/sandbox/internal/launch internal/domain internal/outbound", "any program can confine a command"},
	{"runtime/sandbox/internal/launch", "", "its init function runs before those of other packages"},
	{"runtime/session", "runtime/model internal/...", "a transcript is made of the model's messages"},
	{"runtime/session/sessiontest", "runtime/model runtime/session", "the suite uses only the interface of stores"},
	{"runtime/skill", "", "skills are files, independent of agents and tools"},
	{"runtime/skill/archive", "runtime/agent internal/outbound internal/skillzip", "only an embedder that configures archives links their format; agent defines them"},
	{"runtime/tool", "", "an external tool needs only this package"},
	{"runtime/tool/builtin", "runtime/tool runtime/skill filesafe internal/child internal/outbound internal/excerpt", "tools depend on the tool interface and on the resources they use"},
	{"runtime/tool/js", "runtime/tool runtime/agent runtime/sandbox internal/child internal/outbound internal/excerpt", "only an embedder that configures custom tools links their engine; agent defines them; a worker confines itself"},
	{"runtime/tool/confine", "runtime/tool runtime/agent runtime/sandbox runtime/wire internal/privatedir", "only an embedder that confines commands links their launcher; agent defines the policies"},
	{"runtime/tool/schema", "internal/jsonlimit", "a schema does not depend on the source of its tool"},
	{"runtime/tool/mcp", "runtime/tool runtime/agent internal/child internal/privatedir internal/outbound internal/excerpt internal/jsonlimit sse", "only an embedder that configures MCP links its protocol; agent defines the servers"},
	{"runtime/wire", "runtime/model internal/excerpt", "both ends of the network share one description"},

	{"hub", "hub/... internal/... auditlog/sqlaudit " + agents + " " + leaves, "the only place that imports every concern"},
	{"hub/api", "internal/... " + leaves, "the shared code of handlers does not depend on a concern"},
	{"hub/api/apitest", "hub/api hub/db internal/logtest auditlog/sqlaudit " + leaves, "tests of a concern need no other concern"},
	{"hub/db", "internal/...", "the database layer has no tables: each concern has its own migrations"},
	{"hub/db/dbtest", "hub/db internal/pgtest", "tests run on both engines"},
	{"hub/secret", "", "a keyring does not depend on the content it encrypts"},
	{"hub/identity", concern, reasons.concern},
	{"hub/external", concern + " hub/identity", reasons.concern},
	{"hub/artifact", concern, reasons.concern},
	{"hub/artifact/s3blob", "hub/artifact internal/outbound", "only a hub that stores files in S3 links its client"},
	{"hub/artifact/artifacttest", "hub/artifact", "the suite uses only the interface of drivers"},
	{"hub/provider", concern, reasons.concern},
	{"hub/catalog", concern + " hub/artifact hub/provider hub/catalog/... runtime/skill " + agents, reasons.concern},
	{"hub/catalog/archive", "runtime/skill internal/skillzip", "an archive is checked without a hub"},
	{"hub/deploy", concern + " hub/catalog hub/provider hub/artifact runtime/client " + agents, reasons.concern},
	{"hub/deploy/process", deployer + " runtime/sandbox", reasons.driver},
	{"hub/deploy/deploytest", deployer, "the suite uses only the interface of drivers"},
	{"hub/deploy/docker", deployer, reasons.driver},
	{"hub/deploy/kubernetes", deployer, reasons.driver},
	{"hub/gateway", concern, reasons.concern},
	{"hub/gateway/kong", "hub/gateway " + concern, reasons.driver},
	{"hub/gateway/apisix", "hub/gateway " + concern, reasons.driver},
	{"hub/chat", concern + " hub/deploy hub/catalog hub/aigc runtime/client " + agents, reasons.concern},
	{"hub/aigc", concern + " hub/aigc/label", reasons.concern},
	{"hub/aigc/label", "", "labels are built and verified without a hub"},
	{"hub/console", concern, reasons.concern},
	{"hub/client", "runtime/wire sse", "a client does not link the server"},

	{"internal/archtest", "", "it reads the source of the module"},
	{"internal/testgate", "", "it reads the output of the go command"},
	{"internal/deadline", stdlib, "leaves import it"},
	{"internal/domain", stdlib, "definitions of agents and the proxy of a sandbox read the same hosts"},
	{"internal/filelock", "", "locks of files depend on no store"},
	{"internal/excerpt", stdlib, "leaves import it"},
	{"internal/httpapi", "internal/ids internal/deadline internal/excerpt internal/jsonlimit", "the shared code of both servers depends on neither"},
	{"internal/child", "", "code that starts processes does not depend on them"},
	{"internal/openapitest", "", "it reads documents and responses of any server"},
	{"internal/logtest", "", "it records logs of any package"},
	{"internal/usertest", "", "permissions are those of the system"},
	{"internal/pgtest", "", "a database server for tests has no tables"},
	{"internal/jsonlimit", stdlib, "both servers and their clients check JSON before they decode it"},
	{"internal/apidocs", "", "a page of an OpenAPI document does not depend on the server"},
	{"internal/privatedir", "internal/filelock", "servers and sandboxes have directories of the same kind"},
	{"internal/outbound", "", "the HTTP client does not depend on its callers"},
	{"internal/sqlerr", stdlib, "errors are classified without a driver: the audit store links none"},
	{"internal/migrate", stdlib, "the audit store migrates without the hub, on any *sql.DB"},
	{"internal/skillzip", "", "the hub and the runtime read the same archives"},
	{"internal/paging", stdlib, "a leaf uses it"},
	{"internal/ids", "", "the shared code of both servers depends on neither"},
	{"cmd/...", "...", "commands connect all packages"},
	{"examples/...", "...", "examples use any package"},
}

// Rows with the same content share their text.
const (
	adapter  = "runtime/model runtime/model/internal/... sse"
	deployer = "hub/deploy runtime/client " + agents + " " + concern
)

var reasons = struct{ adapter, concern, driver string }{
	adapter: "an adapter translates one wire format and does not depend on runs",
	concern: "hub connects concerns by passing functions: imports between concerns become cycles",
	driver:  "a driver depends only on its concern and its platform",
}

// unreachable concerns all direct and indirect dependencies of a package.
var unreachable = []reach{
	{"runtime/...", "hub/...", sql, "a runtime needs neither the control plane nor a database"},
	{"runtime", "runtime/tool/js runtime/tool/mcp runtime/tool/confine runtime/sandbox", "", "an embedder links only the tools that it configures"},
	{"hub/...", "runtime runtime/engine runtime/run runtime/tool/...", "", "a running runtime is accessed only through runtime/client"},
	{"auditlog/...", "", drivers, "the driver is the caller's choice"},
}

// modules lists where a third-party package may be imported. Tests may import any that has a row; a
// package without a row must not be imported. "*test" matches packages whose name ends in test.
var modules = []rule{
	{"testing/...", "*test", "it adds flags to every program that links it"},
	{"net/http/httptest", "*test examples/...", "it opens a listener: only for tests, and for an example that needs no open port"},
	{"github.com/stretchr/testify/require", "*test", "tests only"},
	{"github.com/google/go-cmp/... go.uber.org/goleak pgregory.net/rapid", "*test", "tests only"},
	{"github.com/getkin/kin-openapi/...", "*test", "only tests compare responses with the OpenAPI document"},
	{"github.com/spf13/cobra github.com/spf13/pflag", "cmd/...", "a library has no command line"},
	{"github.com/caarlos0/env/v11", "cmd/...", "a library gets its settings as a struct"},
	{"github.com/mattn/go-isatty", "cmd/...", "the terminal belongs to the command"},
	{"github.com/rs/zerolog/...", "cmd/...", "a library logs to the *slog.Logger of its Config"},
	{"github.com/julienschmidt/httprouter", "runtime hub hub/api internal/httpapi", "the router stays behind http.Handler"},
	{"github.com/google/uuid", "internal/ids", "ids are generated in one place"},
	{"go.yaml.in/yaml/v3", "runtime/agent runtime/skill hub/catalog hub/deploy/process internal/apidocs cmd/...", "YAML is a file format, and these read files"},
	{drivers, "hub/db internal/pgtest cmd/...", "one place opens databases"},
	{"github.com/golang-jwt/jwt/v5 golang.org/x/crypto/argon2", "hub/identity", "tokens and passwords are created and verified in one place"},
	{"modernc.org/quickjs/...", "runtime/tool/js", "an adapter adds its own dependency and no other"},
	{"github.com/evanw/esbuild/...", "runtime/tool/js", "tools are compiled in one place, in a worker"},
	{"github.com/modelcontextprotocol/go-sdk/...", "runtime/tool/mcp", "an adapter adds its own dependency and no other"},
	{"github.com/google/jsonschema-go/jsonschema", "runtime/tool/schema runtime/tool/mcp", "inputs are validated in one place"},
	{"github.com/bmatcuk/doublestar/v4", "runtime/permission runtime/tool/builtin", "only these match globs"},
	{"golang.org/x/net/html/...", "runtime/tool/builtin", "only WebFetch reads web pages"},
	{"golang.org/x/text/unicode/norm", "internal/skillzip runtime/permission", "names are compared as file systems compare them"},
	{"github.com/landlock-lsm/go-landlock/... github.com/elastic/go-seccomp-bpf/... golang.org/x/net/bpf", "runtime/sandbox", "commands are confined in one place"},
	{"golang.org/x/sys/...", "internal/child runtime/sandbox/... runtime/tool/js cmd/...", "system calls that the standard library does not provide"},
	{"github.com/prometheus/client_golang/...", "cmd/...", "a library calls an observer, and the command exports metrics"},
	{"github.com/coreos/go-oidc/v3/... golang.org/x/oauth2/... github.com/go-jose/go-jose/v4", "hub/external", "an adapter adds its own dependency and no other"},
	{"github.com/aws/...", "hub/artifact/s3blob", "an adapter adds its own dependency and no other"},
	{"github.com/moby/moby/...", "hub/deploy/docker", "an adapter adds its own dependency and no other"},
	{"k8s.io/...", "hub/deploy/kubernetes", "an adapter adds its own dependency and no other"},
}

// The scope of a forbidden use: libraries (everything but commands, examples and tests), or tests.
const (
	inLibraries = "library"
	inTests     = "test"
)

// uses are names of the standard library that must not be used. A * at the end matches any rest.
var uses = []rule{
	{inLibraries, "os.Getenv os.LookupEnv os.Environ os.ExpandEnv os.UserHomeDir os.UserConfigDir os.UserCacheDir os/exec.LookPath", "the environment belongs to the command, which passes it on"},
	{inLibraries, "net/http.ProxyFromEnvironment net/http.DefaultTransport", "its proxy comes from the environment"},
	{inLibraries, "net/http.DefaultClient net/http.Get net/http.Head net/http.Post net/http.PostForm", "it has no timeout, and a proxy from the environment"},
	{inLibraries, "net/http.ListenAndServe* net/http.Serve net/http.ServeTLS net.Listen*", "the caller decides where to listen"},
	{inLibraries, "net/http.Handle net/http.HandleFunc net/http.DefaultServeMux", "a library returns handlers and does not register them"},
	{inLibraries, "os.Exit os/signal.*", "the process belongs to the command"},
	{inLibraries, "fmt.Print* os.Stdin os.Stdout os.Stderr", "the terminal belongs to the command"},
	{inLibraries, "log.Print* log.Fatal* log.Panic* log.Default log.Set*", "a library logs to the *slog.Logger of its Config"},
	{inLibraries, "log/slog.Debug* log/slog.Info* log/slog.Warn* log/slog.Error* log/slog.Log log/slog.LogAttrs log/slog.SetDefault", "a library logs to the *slog.Logger of its Config"},
	{inTests, "time.Sleep", "a test that sleeps is slow or flaky: wait for the event, or use testing/synctest"},
}

// exceptions permit a package to use names that uses forbids. An unused exception is an error.
var exceptions = []rule{
	{"runtime/sandbox", "net.Listen*", "its proxy has a port on the loopback interface where commands have none of their own"},
	{"hub/deploy/process", "net.Listen*", "it reserves the port of the runtime that it starts, which inherits the listener"},
	{"internal/pgtest", "os.Getenv os.Exit os.Stderr os/exec.LookPath", "it is part of TestMain, the main function of tests, and reads which server they use"},
}

// budgets bound the exported names of a package (types, functions, variables, constants; not
// methods and fields), which a user has to read first. Five names of filesafe are the types of
// entries.
var budgets = map[string]int{"sse": 12, "filesafe": 15, "rbac": 15, "auditlog": 25, "runtime": 40, "hub": 40}

// lengths bound the lines of a file: one noun per file. The last matching row applies.
var lengths = []length{
	{"...", "", 400},
	{"cmd/...", "main.go", 120},
	{"examples/...", "", 80},
}

// vagueNames describe no content.
const vagueNames = "util utils common helper helpers models types misc base lib shared"
