package skill_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

var update = flag.Bool("update", false, "write the golden file")

// TestGolden scans testdata/project. The golden file has each skill with its body, and the log.
func TestGolden(t *testing.T) {
	project, err := filepath.Abs("testdata/project")
	require.NoError(t, err)
	var logs bytes.Buffer
	s, err := skill.New(skill.Config{CWD: project, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	require.NoError(t, err)
	skills, err := s.Scan(t.Context(), []string{skill.Project}, nil, nil)
	require.NoError(t, err)

	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", "  ")
	for _, s := range skills {
		body, err := s.Body()
		require.NoError(t, err)
		require.NoError(t, enc.Encode(map[string]string{
			"name": s.Name, "description": s.Description, "source": s.Source, "location": s.Location, "dir": s.Dir(), "body": body,
		}))
	}
	for line := range strings.Lines(logs.String()) {
		_, line, _ = strings.Cut(line, " ") // the time
		got.WriteString(line)
	}
	text := strings.ReplaceAll(got.String(), project, "$CWD")

	const golden = "testdata/project.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}
