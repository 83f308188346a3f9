package runtime_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
)

// BenchmarkNew makes a runtime of 50 agents, each with every built-in tool, ten skills, a subagent
// and rules.
func BenchmarkNew(b *testing.B) {
	cwd := b.TempDir()
	for i := range 10 {
		dir := filepath.Join(cwd, ".agents", "skills", fmt.Sprint("skill", i))
		require.NoError(b, os.MkdirAll(dir, 0o700))
		require.NoError(b, os.WriteFile(filepath.Join(dir, "SKILL.md"),
			[]byte("---\ndescription: Does things.\n---\nDo things.\n"), 0o600))
	}
	var agents []agent.Agent
	for i := range 50 {
		agents = append(agents, agent.Agent{
			ID: fmt.Sprint("agent", i), Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
			DisallowedTools: []string{"Bash(rm *)", "Read(secrets/**)"},
			Subagents:       map[string]agent.Subagent{"scout": {Description: "Looks around.", Prompt: "You scout."}},
		})
	}
	boxes, err := confine.New(confine.Config{CWD: cwd, Dir: b.TempDir()})
	require.NoError(b, err)
	for name, cfg := range map[string]runtime.Config{"plain": {}, "confined": {OpenSandbox: boxes.Open}} {
		cfg.Agents, cfg.CWD = agents, cwd
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rt, err := runtime.New(b.Context(), cfg)
				require.NoError(b, err)
				require.Empty(b, rt.Unavailable())
				require.NoError(b, rt.Close())
			}
		})
	}
}
