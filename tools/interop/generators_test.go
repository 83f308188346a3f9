package interop_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// TestGenerators makes clients of both servers from the documents that they serve, compiles them
// with a program of testdata/generators, and runs it. The program calls the servers, and prints
// parts of their responses.
func TestGenerators(t *testing.T) {
	const (
		tsc      = "../node_modules/.bin/tsc --strict --target es2022 --module node16 --types node main.ts"
		goBuild  = "go build -trimpath -o main ." // the clients are in the build cache the next time
		document = "DOCUMENT"                     // the file of the document of a server
		server   = "SERVER"                       // the directory of its client, which is the name of the server
	)
	generators := []struct{ name, format, generate, compile, run string }{
		{"hey-api", "yaml", "../node_modules/.bin/openapi-ts -i DOCUMENT -o SERVER", tsc, "node main.js"},
		{"orval", "json", "../node_modules/.bin/orval --input DOCUMENT --output SERVER/api.ts --client fetch", tsc, "node main.js"},
		{"openapi-typescript", "yaml", "../node_modules/.bin/openapi-typescript DOCUMENT -o SERVER/api.d.ts", tsc, "node main.js"},
		{"openapi-typescript-codegen", "json", "../node_modules/.bin/openapi --input DOCUMENT --output SERVER --client fetch", tsc, "node main.js"},
		{"oapi-codegen", "json", "go tool oapi-codegen -generate types,client -package SERVER -o SERVER/client.go DOCUMENT", goBuild, "./main"},
		{"ogen", "yaml", "go tool ogen -config ../ogen.yml -package SERVER -target SERVER DOCUMENT", goBuild, "./main"},
	}
	h := openHub(t)
	servers := map[string]string{"hub": h.url, "runtime": serve(t, agent.Agent{})}
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS("testdata/generators")))
	packages, err := filepath.Abs("node_modules")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(packages, filepath.Join(root, "node_modules")))
	for _, g := range generators {
		t.Run(g.name, func(t *testing.T) {
			execute := func(command string, env ...string) string {
				args := strings.Fields(command)
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir = filepath.Join(root, g.name)
				cmd.Env = append(os.Environ(), env...)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %s", command, out)
				return string(out)
			}
			for name, url := range servers {
				file := filepath.Join(root, g.name, "openapi-"+name+"."+g.format)
				require.NoError(t, os.WriteFile(file, []byte(execute("curl -fsS "+url+"/openapi."+g.format)), 0o600))
				require.NoError(t, os.MkdirAll(filepath.Join(root, g.name, name), 0o700))
				execute(strings.NewReplacer(document, file, server, name).Replace(g.generate))
			}
			execute(g.compile)
			out := execute(g.run, "HUB="+h.url, "PASSWORD=correct horse battery", "NAME="+g.name, "PROVIDER=demo",
				"RUNTIME="+servers["runtime"], "KEY="+key)
			var results struct {
				Created, Conflict            string
				Listed                       []string
				Health, State, Text, Unknown string
			}
			require.NoError(t, json.Unmarshal([]byte(out), &results), out)
			require.Equal(t, g.name, results.Created)
			require.Equal(t, "name_taken", results.Conflict)
			require.Equal(t, []string{g.name}, results.Listed)
			require.Equal(t, "ok", results.Health)
			require.Equal(t, "completed", results.State)
			require.Contains(t, results.Text, "Hello")
			require.Equal(t, "Agent not found", results.Unknown)
		})
	}
}
