package interop_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// packages returns the directories of the packages of skills.txt.
func packages(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadFile("skills.txt")
	require.NoError(t, err)
	var dirs []string
	for _, name := range strings.Fields(string(list)) {
		dir, err := filepath.Abs(filepath.Join("node_modules", ".skills", name))
		require.NoError(t, err)
		dirs = append(dirs, dir)
	}
	require.Greater(t, len(dirs), 30)
	return dirs
}

// documents returns the SKILL.md files below a directory.
func documents(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.EqualFold(entry.Name(), "SKILL.md") {
			found = append(found, path)
		}
		return err
	}))
	require.NotEmpty(t, found, dir)
	return found
}

// Every skill of a package has a name and a description, without a warning, unless its file has no
// front matter. A warning about two skills of one name needs two that differ.
func TestPublicSkillsAreScanned(t *testing.T) {
	total := 0
	for _, dir := range packages(t) {
		files := documents(t, dir)
		total += len(files)
		var logged logtest.Buffer
		bot := agent.Agent{ID: "bot", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}, ExtraUserSkillDirs: []string{dir}}
		rt, err := runtime.New(t.Context(), runtime.Config{Agents: []agent.Agent{bot}, CWD: t.TempDir(), Logger: slog.New(slog.NewJSONHandler(&logged, nil))})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		response := httptest.NewRecorder()
		rt.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "http://localhost/v1/agents/bot", nil))
		var detail wire.AgentDetail
		require.NoError(t, json.Unmarshal(response.Body.Bytes(), &detail))
		require.NotEmpty(t, detail.AvailableSkills, dir)
		bare := map[string]bool{} // without front matter
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			bare[path] = !bytes.HasPrefix(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("---"))
		}
		for _, skill := range detail.AvailableSkills {
			require.NotEmpty(t, skill.Name)
			require.Equal(t, bare[skill.Location], skill.Description == "", skill.Location)
		}
		for line := range strings.Lines(logged.String()) {
			var warning struct{ Level, Msg, Path, Used, Unused string }
			require.NoError(t, json.Unmarshal([]byte(line), &warning))
			switch {
			case warning.Level != "WARN":
			case warning.Msg == "two skills have one name":
				used, err := os.ReadFile(warning.Used)
				require.NoError(t, err)
				unused, err := os.ReadFile(warning.Unused)
				require.NoError(t, err)
				require.NotEqual(t, string(used), string(unused), line)
			default:
				require.Equal(t, "skill has problems", warning.Msg, line)
				require.True(t, bare[warning.Path], line)
			}
		}
	}
	t.Logf("%d skills of %d packages", total, len(packages(t)))
	require.Greater(t, total, 1000)
}

// The command uploads every skill of a package, except for one whose name another one has.
func TestPublicSkillsAreUploaded(t *testing.T) {
	command := filepath.Join(built, "agenthost")
	build := exec.Command("go", "build", "-o", command, "./cmd/agenthost")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "GOWORK=") // go.work
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	h := openHub(t)
	uploaded := 0
	for _, dir := range packages(t) {
		cmd := exec.CommandContext(t.Context(), command, "skills", "upload", dir, "-o", "json")
		cmd.Env = append(os.Environ(), "AGENTHOST_URL="+h.url, "AGENTHOST_TOKEN="+h.token, "HOME="+t.TempDir())
		var problems bytes.Buffer
		cmd.Stderr = &problems
		list, err := cmd.Output()
		require.Equal(t, problems.Len() == 0, err == nil, "%s", problems.String())
		uploaded += bytes.Count(list, []byte(`"hash"`))
		for line := range strings.Lines(problems.String()) {
			require.Contains(t, line, "name_taken: ", "%s", problems.String())
		}
	}
	t.Logf("%d skills are uploaded", uploaded)
	require.Greater(t, uploaded, 500)
}
