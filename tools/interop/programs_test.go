package interop_test

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// snippet returns a program around the first block of Go in a section of a document.
func snippet(t *testing.T, document, section string, imports ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", document))
	require.NoError(t, err)
	_, body, found := strings.Cut(string(text), section+"\n")
	require.True(t, found, "%s has no section %s", document, section)
	_, body, found = strings.Cut(body, "```go\n")
	require.True(t, found, "%s, %s has no program", document, section)
	body, _, _ = strings.Cut(body, "```")
	return `package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"` + strings.Join(imports, "\"\n\t\"") + `"
)

func main() { log.Fatal(serve(context.Background(), http.DefaultServeMux, os.Getenv("KEY"))) }

func serve(ctx context.Context, mux *http.ServeMux, key string) error {
` + body + `
return http.ListenAndServe("127.0.0.1:8081", nil)
}
`
}

// releaseOf returns a go.work for one more module, and its sums.
func releaseOf(t *testing.T, root string) [2]string {
	t.Helper()
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(root, "go.work.sum"))
	require.NoError(t, err)
	_, modules, _ := strings.Cut(string(work), "use (")
	modules = strings.NewReplacer("\t./", "\t"+root+"/", "\t.\n", "\t"+root+"\n", "=> ./", "=> "+root+"/", "=> .\n", "=> "+root+"\n").Replace(modules)
	return [2]string{"go " + strings.TrimPrefix(goruntime.Version(), "go") + "\nuse .\nuse (" + modules, string(sums)}
}

// TestFivePrograms: five programs of a reader, each a module of its own: those of the README and of
// the hub's, and three that begin as examples. go.work is in place of the release, which go get
// would download.
func TestFivePrograms(t *testing.T) {
	if !alone(t) {
		return
	}
	const module = "github.com/seed93082962/agenthost/"
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Written plainly.")))
	example := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "examples", name, "main.go"))
		require.NoError(t, err)
		return string(text)
	}
	p := newPerson(t, t.TempDir())
	programs := map[string]string{
		"embed": strings.Replace(snippet(t, "README.md", "## In your program", module+"runtime", module+"runtime/agent"),
			"agent.Provider{", "agent.Provider{BaseURL: "+`"`+up.URL+`", `, 1),
		"hub":    snippet(t, "hub/README.md", "# Package hub", module+"hub"),
		"client": example("client"), "tool": example("tool"), "model": example("model"),
	}
	release := releaseOf(t, root)
	shell := func(name string, env ...string) *terminal {
		p.dir = filepath.Join(p.home, name)
		require.NoError(t, os.Mkdir(p.dir, 0o700))
		for file, text := range map[string]string{"main.go": programs[name], "go.work": release[0], "go.work.sum": release[1]} {
			require.NoError(t, os.WriteFile(filepath.Join(p.dir, file), []byte(text), 0o600))
		}
		term := p.terminal(env...)
		term.run(p.typed("go mod init example.com/" + name))
		return term
	}
	require.Contains(t, shell("tool").run(p.typed("go run .")), "word_count returned: 3 words")
	require.Contains(t, shell("model").run(p.typed("go run .")), "HELLO FROM A MODEL IN GO")

	embed := shell("embed", "KEY=sk-ant")
	embed.types(p.typed("go run .\n"))
	awaitHTTP(t, "http://127.0.0.1:8081/ai/health")
	answer := shell("client").run(p.typed("go run . -url http://127.0.0.1:8081/ai -agent writer Hello!"))
	require.Contains(t, answer, "Written plainly.")
	require.Contains(t, string(up.Await(t, 1).Body), "You write plainly.")
	embed.ends()

	host := shell("hub", "KEY=bTBmZGJzcHc4NGo2ODlqdzVrdjd4ZGZ0M3c5MG0xMjM=")
	host.types(p.typed("go run .\n"))
	host.await(`setup token: \w+`)
	awaitHTTP(t, "http://127.0.0.1:8081/hub/health/ready")
	host.ends()
	p.did(10, 0)
}
