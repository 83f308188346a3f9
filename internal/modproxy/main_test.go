package main

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const agenthost = "github.com/seed93082962/agenthost"

// The proxy is written once: the tests only add modules of others.
var (
	proxy   string // its directory
	release string // the version of the modules
)

func TestMain(m *testing.M) {
	var err error
	if proxy, err = os.MkdirTemp("", "modproxy-"); err != nil {
		panic(err)
	}

	tags, err := write(proxy)
	if err != nil {
		panic(err)
	}

	release = path.Base(tags[0])
	code := m.Run()
	_ = os.RemoveAll(proxy)
	os.Exit(code)
}

// program is the directory of a program that is outside of this tree.
type program struct {
	t     *testing.T
	dir   string
	proxy string // GOPROXY
}

// newProgram returns a program with requirements "PATH VERSION". The module of each is imported.
func newProgram(t *testing.T, next string, requirements ...string) *program {
	t.Helper()
	p := &program{t: t, dir: t.TempDir(), proxy: "file://" + filepath.ToSlash(proxy)}
	if next != "" {
		p.proxy += "," + next
	}

	file := "module example.com/program\n\ngo 1.26.0\n"
	for _, r := range requirements {
		file += "\nrequire " + r
	}

	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "go.mod"), []byte(file+"\n"), 0o600))
	return p
}

// run runs the go command with the module cache of these tests, and returns the lines that it
// prints.
func (p *program) run(args ...string) []string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "go", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE="+filepath.Join(proxy, "cache"), "GOPROXY="+p.proxy, "GONOPROXY=", "GOPRIVATE=")
	var failure strings.Builder
	cmd.Stderr = &failure
	text, err := cmd.Output()
	require.NoError(p.t, err, "go %s: %s", strings.Join(args, " "), failure.String())
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// goTool runs the go command in this tree.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	text, err := output("", "go", args...)
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// old returns the first version of the major version of a module.
func old(module string) string {
	if major := regexp.MustCompile(`/v(\d+)$`).FindStringSubmatch(module); major != nil {
		return "v" + major[1] + ".0.0"
	}

	return "v0.0.1"
}

// publishOld adds the first version of a module, with one package, to the proxy.
func publishOld(t *testing.T, module string) {
	t.Helper()
	versions := filepath.Join(proxy, regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(module, func(s string) string { return "!" + strings.ToLower(s) }), "@v")
	require.NoError(t, os.MkdirAll(versions, 0o755))
	file, err := os.Create(filepath.Join(versions, old(module)+".zip"))
	require.NoError(t, err)
	w := zip.NewWriter(file)
	mod := "module " + module + "\n\ngo 1.20\n"
	for name, text := range map[string]string{"go.mod": mod, "stub.go": "package stub\n"} {
		entry, err := w.Create(module + "@" + old(module) + "/" + name)
		require.NoError(t, err)
		_, err = entry.Write([]byte(text))
		require.NoError(t, err)
	}

	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
	for name, text := range map[string]string{old(module) + ".mod": mod, old(module) + ".info": fmt.Sprintf(`{"Version":%q}`, old(module)), "list": old(module) + "\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(versions, name), []byte(text), 0o600))
	}
}

// A program that has the first version of every module that anything in this tree requires keeps
// them all.
func TestLeavesRaiseNoRequirement(t *testing.T) {
	var requirements, imports []string
	for line := range strings.Lines(goTool(t, "list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all")) {
		module := strings.TrimSpace(line)
		if module == "" || strings.HasPrefix(module, "gopkg.in/") { // their versions are in their names
			continue
		}

		publishOld(t, module)
		requirements = append(requirements, module+" "+old(module))
		imports = append(imports, module)
	}

	require.Greater(t, len(requirements), 100)
	p := newProgram(t, "", requirements...)
	text := "package main\n"
	for _, name := range imports {
		text += "\nimport _ \"" + name + "\""
	}

	for _, leaf := range []string{"sse", "filesafe", "rbac", "auditlog", "auditlog/memaudit", "auditlog/sqlaudit"} {
		text += "\nimport _ \"" + agenthost + "/" + leaf + "\""
		p.run("get", agenthost+"/"+leaf+"@"+release)
	}

	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "main.go"), []byte(text+"\n\nfunc main() {}\n"), 0o600))
	p.run("mod", "tidy")
	want := append(requirements, "example.com/program", agenthost+" "+release, agenthost+"/internal/leaf "+release)
	require.ElementsMatch(t, want, p.run("list", "-m", "all"))
}

// drivers are modules that only one driver needs.
var drivers = regexp.MustCompile(`^(github\.com/moby/moby/|k8s\.io/|sigs\.k8s\.io/|github\.com/aws/|github\.com/nats-io/)`)

// listed returns the modules of a program that imports a package.
func listed(t *testing.T, name string) []string {
	t.Helper()
	requirements := map[string]bool{}
	for line := range strings.Lines(goTool(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{if .Main}}"+release+"{{else}}{{.Version}}{{end}}{{end}}", agenthost+"/"+name)) {
		if line = strings.TrimSpace(line); line != "" {
			requirements[line] = true
		}
	}

	var all []string
	for r := range requirements {
		all = append(all, r)
	}

	// What is not in the module cache comes from where the go command finds it.
	next := "file://" + path.Join(filepath.ToSlash(goTool(t, "env", "GOMODCACHE")), "cache/download") + "," + goTool(t, "env", "GOPROXY")
	return newProgram(t, next, all...).run("list", "-m", "all")
}

func TestListsOfModules(t *testing.T) {
	for name, row := range map[string]struct {
		limit  int
		driver string // the modules of drivers that it has
	}{
		"sse":                   {3, ""},
		"runtime":               {60, ""},
		"hub":                   {90, ""},
		"hub/client":            {90, ""},
		"runtime/host":          {100, ""},
		"runtime/run/natsbus":   {90, "github.com/nats-io/"},
		"hub/blob/s3blob":       {150, "github.com/aws/"},
		"hub/deploy/docker":     {150, "github.com/moby/moby/"},
		"hub/deploy/kubernetes": {150, "k8s.io/ sigs.k8s.io/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := listed(t, name)
			t.Logf("%d modules", len(all))
			require.LessOrEqual(t, len(all), row.limit, "%s", all)
			found := map[string]bool{}
			for _, m := range all {
				if prefix := drivers.FindString(m); prefix != "" {
					found[prefix] = true
				}
			}

			var want []string
			for prefix := range strings.FieldsSeq(row.driver) {
				want = append(want, prefix)
			}

			got := []string{}
			for prefix := range found {
				got = append(got, prefix)
			}

			require.ElementsMatch(t, want, got)
		})
	}
}

func TestModulesCanBeInstalled(t *testing.T) {
	_, modules, err := read()
	require.NoError(t, err)
	for _, m := range modules {
		require.Zero(t, m.replaces, "%s has a replace: go install rejects it", m.path)
		require.Equal(t, path.Join(agenthost, m.dir), m.path)
	}

	required, err := next(modules)
	require.NoError(t, err)
	require.NotEmpty(t, required)
	ordered, err := order(modules)
	require.NoError(t, err)
	require.Len(t, ordered, len(modules))
	for i, m := range ordered {
		for _, r := range m.requires {
			require.NotNil(t, find(ordered[:i], r.Path), "%s is before %s", m.path, r.Path)
		}
	}

	_, err = order([]*module{{path: "a", requires: []version{{Path: "b"}}}, {path: "b", requires: []version{{Path: "a"}}}})
	require.Error(t, err)
	_, err = next([]*module{{requires: []version{{"a", "v1.0.0"}, {"b", "v1.1.0"}}}})
	require.Error(t, err)
}
