package archtest_test

// rule is one row: what a package, or a set of them, is held to. Packages are named relative to the module; "a/..." is a
// and all below it. A package is held to its most exact row. The reason is what a violation is answered with.
type rule struct{ who, what, why string }

type (
	reach  struct{ who, ours, others, why string }
	length struct {
		in, file string // package and file name; "" is any
		most     int
	}
)

// A few sets that several rows share.
const (
	stdlib   = "(standard library)"
	leaves   = "sse filesafe rbac auditlog"
	concern  = "hub/api hub/db hub/secret internal/... auditlog/sqlaudit " + leaves // what every concern of the hub may use
	agents   = "runtime/agent runtime/wire"                                         // the runtime's formats, so that none is written twice
	adapters = "runtime/model/anthropic runtime/model/openai runtime/model/demo"    // built in because they need the standard library alone
	drivers  = "github.com/jackc/... modernc.org/sqlite/..."
	sql      = "database/sql " + drivers // not database/sql/driver, whose Valuer every id type names
)

// arrows says for each package what of ours it may import. Tests are free. Every package has a row, also those to come.
var arrows = []rule{
	{"sse", stdlib, "whoever wants event streams alone gets no third-party module"},
	{"filesafe", stdlib, "what guards a directory is small enough to be read whole"},
	{"rbac", stdlib, "who may do what is decided without knowing any server"},
	{"auditlog", stdlib, "the log knows neither its database nor what it logs"},
	{"auditlog/auditlogtest", "auditlog", "the suite knows stores by their interface"},
	{"auditlog/sqlaudit", "auditlog", "a store on any *sql.DB, that of a stranger's server too"},

	{"runtime", agents + " " + adapters + " runtime/engine runtime/model runtime/permission runtime/run runtime/session runtime/skill runtime/tool runtime/tool/builtin internal/... sse filesafe",
		"script tools and MCP come in through Config: who needs neither links neither"},
	{"runtime/agent", "runtime/wire", "an agent is data: it is read and checked where no model or tool is linked"},
	{"runtime/client", "runtime/wire sse internal/outbound", "a client links no part of the server"},
	{"runtime/engine", "runtime/model runtime/tool runtime/permission runtime/session runtime/wire internal/...", "the run loop knows interfaces, no adapter and no HTTP"},
	{"runtime/model", "", "an adapter from outside needs this package alone"},
	{"runtime/model/anthropic", adapter, why.adapter},
	{"runtime/model/openai", adapter, why.adapter},
	{"runtime/model/demo", adapter, why.adapter},
	{"runtime/model/modeltest", adapter, why.adapter},
	{"runtime/model/internal/...", "runtime/model sse internal/outbound", "what adapters share"},
	{"runtime/permission", "", "rules judge a name and a JSON input, whatever the tool"},
	{"runtime/run", "runtime/wire internal/...", "the registry knows that runs end, not what they do"},
	{"runtime/session", "runtime/model internal/...", "a transcript is made of the model's messages"},
	{"runtime/session/sessiontest", "runtime/model runtime/session", "the suite knows stores by their interface"},
	{"runtime/skill", "", "a scan of a folder"},
	{"runtime/tool", "", "a tool from outside needs this package alone"},
	{"runtime/tool/builtin", "runtime/tool runtime/skill filesafe internal/child internal/outbound", "tools know the tool interface and what they work on"},
	{"runtime/tool/js", "runtime/tool runtime/agent internal/child internal/outbound", "a tool kind brings its engine for those alone who pass it in; agent is the data that says which"},
	{"runtime/tool/mcp", "runtime/tool runtime/agent internal/child internal/outbound", "a tool kind brings its protocol for those alone who pass it in; agent is the data that says which"},
	{"runtime/wire", "runtime/model", "both ends of the network share one description"},

	{"hub", "hub/... internal/... auditlog/sqlaudit " + agents + " " + leaves, "the one place that sees every concern"},
	{"hub/api", "internal/... " + leaves, "what handlers share knows no concern"},
	{"hub/db", "internal/...", "the database knows no table: each concern brings its own migrations"},
	{"hub/db/dbtest", "hub/db internal/pgtest", "tests run on both engines"},
	{"hub/secret", "", "a keyring knows not what it seals"},
	{"hub/identity", concern, why.concern},
	{"hub/external", concern + " hub/identity", why.concern},
	{"hub/artifact", concern, why.concern},
	{"hub/catalog", concern + " hub/artifact " + agents, why.concern},
	{"hub/deploy", concern + " hub/catalog hub/artifact runtime/client " + agents, why.concern},
	{"hub/deploy/process", deployer, why.driver},
	{"hub/deploy/docker", deployer, why.driver},
	{"hub/deploy/kubernetes", deployer, why.driver},
	{"hub/gateway", concern, why.concern},
	{"hub/gateway/kong", "hub/gateway " + concern, why.driver},
	{"hub/gateway/apisix", "hub/gateway " + concern, why.driver},
	{"hub/chat", concern + " hub/deploy hub/catalog hub/aigc runtime/client " + agents, why.concern},
	{"hub/aigc", concern, why.concern},
	{"hub/console", concern, why.concern},
	{"hub/client", "runtime/wire sse", "a client links no part of the server"},

	{"internal/archtest", "", "it reads the module from outside"},
	{"internal/testgate", "", "it reads what the go command writes"},
	{"internal/httpapi", "internal/ids", "what both servers share knows neither"},
	{"internal/child", "", "what starts processes knows none of them"},
	{"internal/readmetest", "", "it reads documents and tests, whatever they are of"},
	{"internal/openapitest", "", "it reads documents and answers, whatever server they are of"},
	{"internal/logtest", "", "it keeps what is logged, whoever does"},
	{"internal/usertest", "", "permissions are the system's"},
	{"internal/pgtest", "", "a database server for tests knows no table"},
	{"internal/outbound", "", "what calls streams knows none of them"},
	{"internal/ids", "", "what both servers share knows neither"},
	{"cmd/...", "...", "commands put everything together"},
	{"examples/...", "...", "examples show everything"},
}

// Rows that say the same have one wording.
const (
	adapter  = "runtime/model runtime/model/internal/... sse"
	deployer = "hub/deploy runtime/client " + agents + " " + concern
)

var why = struct{ adapter, concern, driver string }{
	adapter: "an adapter turns one wire format into model's terms and knows no run",
	concern: "concerns meet in hub, which passes functions in: sideways imports become a knot",
	driver:  "a driver knows the concern it serves and its own platform",
}

// unreachable is about the whole program that a package drags in, through whatever it imports.
var unreachable = []reach{
	{"runtime/...", "hub/...", sql, "a runtime runs beside an agent, with neither control plane nor database"},
	{"runtime", "runtime/tool/js runtime/tool/mcp", "", "an embedder links what it passes in and nothing more"},
	{"hub/...", "runtime runtime/engine runtime/run runtime/tool/...", "", "a running runtime is reached through runtime/client alone"},
	{"auditlog/...", "", drivers, "the driver is the caller's choice"},
}

// modules says where a package from outside may be imported. Tests may import any that has a row; one without a row is
// nowhere to be imported, so that each dependency is taken on knowingly. "*test" are packages whose name ends so.
var modules = []rule{
	{"testing/...", "*test", "it adds its flags to the program that links it"},
	{"net/http/httptest", "*test examples/...", "it listens by itself: for tests, and for an example that needs no open port"},
	{"github.com/stretchr/testify/require", "*test", "tests only"},
	{"github.com/google/go-cmp/... go.uber.org/goleak pgregory.net/rapid", "*test", "tests only"},
	{"github.com/getkin/kin-openapi/...", "*test", "answers are held against the OpenAPI document by tests alone"},
	{"github.com/spf13/cobra github.com/spf13/pflag", "cmd/...", "a library has no command line"},
	{"github.com/caarlos0/env/v11", "cmd/...", "a library gets its settings as a struct"},
	{"github.com/mattn/go-isatty", "cmd/...", "the terminal belongs to the command"},
	{"github.com/rs/zerolog/...", "cmd/...", "a library logs to the *slog.Logger of its Config"},
	{"github.com/julienschmidt/httprouter", "runtime hub hub/api internal/httpapi", "the router stays behind http.Handler"},
	{"github.com/google/uuid", "internal/ids", "ids are made in one place"},
	{"go.yaml.in/yaml/v3", "runtime/agent runtime/skill hub/catalog cmd/...", "YAML is a file format, and these read files"},
	{drivers, "hub/db internal/pgtest cmd/...", "one place opens databases"},
	{"github.com/golang-jwt/jwt/v5 golang.org/x/crypto/argon2", "hub/identity", "tokens and passwords are made and checked in one place"},
	{"modernc.org/quickjs/... github.com/evanw/esbuild/... github.com/tdewolff/parse/...", "runtime/tool/js", "an adapter adds its own dependency and no other"},
	{"github.com/modelcontextprotocol/go-sdk/...", "runtime/tool/mcp", "an adapter adds its own dependency and no other"},
	{"github.com/google/jsonschema-go/jsonschema", "runtime/engine runtime/tool/mcp", "inputs are held to their schema in one place"},
	{"mvdan.cc/sh/v3/syntax", "runtime/permission", "shell commands are read to be judged, in one place"},
	{"github.com/bmatcuk/doublestar/v4", "runtime/permission runtime/tool/builtin", "globs"},
	{"github.com/JohannesKaufmann/html-to-markdown/v2/... golang.org/x/net/html/...", "runtime/tool/builtin", "WebFetch alone reads web pages"},
	{"golang.org/x/sys/...", "internal/child runtime/tool/js cmd/...", "what the standard library's syscall package does not have"},
	{"github.com/prometheus/client_golang/...", "cmd/...", "a library tells an observer what happens; how it is counted is the command's choice"},
	{"github.com/coreos/go-oidc/v3/... golang.org/x/oauth2/...", "hub/external", "an adapter adds its own dependency and no other"},
	{"github.com/aws/aws-sdk-go-v2/...", "hub/artifact/...", "an adapter adds its own dependency and no other"},
	{"github.com/moby/moby/...", "hub/deploy/docker", "an adapter adds its own dependency and no other"},
	{"k8s.io/...", "hub/deploy/kubernetes", "an adapter adds its own dependency and no other"},
}

// Where a use is forbidden: in libraries (all but commands, examples and tests), or in tests.
const (
	inLibraries = "library"
	inTests     = "test"
)

// uses are names of the standard library that must not be used. A * at the end stands for any rest.
var uses = []rule{
	{inLibraries, "os.Getenv os.LookupEnv os.Environ os.ExpandEnv os.UserHomeDir os.UserConfigDir os.UserCacheDir os/exec.LookPath", "the environment belongs to the command, which passes on what it read"},
	{inLibraries, "net/http.ProxyFromEnvironment net/http.DefaultTransport", "its proxy comes from the environment"},
	{inLibraries, "net/http.DefaultClient net/http.Get net/http.Head net/http.Post net/http.PostForm", "it has no timeout, and a proxy from the environment"},
	{inLibraries, "net/http.ListenAndServe* net/http.Serve net/http.ServeTLS net.Listen*", "the caller decides where to listen"},
	{inLibraries, "net/http.Handle net/http.HandleFunc net/http.DefaultServeMux", "a handler is returned, not registered"},
	{inLibraries, "os.Exit os/signal.*", "the process belongs to the command"},
	{inLibraries, "fmt.Print* os.Stdin os.Stdout os.Stderr", "the terminal belongs to the command"},
	{inLibraries, "log.Print* log.Fatal* log.Panic* log.Default log.Set*", "a library logs to the *slog.Logger of its Config"},
	{inLibraries, "log/slog.Debug* log/slog.Info* log/slog.Warn* log/slog.Error* log/slog.Log log/slog.LogAttrs log/slog.SetDefault", "a library logs to the *slog.Logger of its Config"},
	{inTests, "time.Sleep", "a test that waits by the clock is slow or fails now and then: wait for the event, or use testing/synctest"},
}

// exceptions let a package use what uses forbid. One that nothing needs any more is a fault.
var exceptions = []rule{
	{"internal/pgtest", "os.Getenv os.Exit os.Stderr os/exec.LookPath", "it stands in TestMain, which is a command's main, and asks which server the tests are to use"},
}

// budgets bound the exported names of a package (types, functions, variables, constants; not methods and fields): what a
// user must read before the first line of code.
var budgets = map[string]int{"sse": 12, "filesafe": 10, "rbac": 15, "auditlog": 25, "runtime": 40, "hub": 40}

// lengths bound a file's lines: one noun a file. The last row that fits a file holds.
var lengths = []length{
	{"...", "", 400},
	{"cmd/...", "main.go", 120},
	{"examples/...", "", 80},
}

// vagueNames say of a package that it is there, not what it is.
const vagueNames = "util utils common helper helpers models types misc base lib shared"
