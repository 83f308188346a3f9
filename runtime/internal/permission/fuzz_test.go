package permission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

// A command that a pattern allows is denied by the same pattern in the disallowed list. An allowed
// command is no longer allowed if another command follows it.
func FuzzCheckBash(f *testing.F) {
	for _, command := range evasive {
		f.Add(command)
	}
	for _, command := range []string{"git a | git b", "git 'a b' \"c\" \\; d", "git <<'E'\nx\nE\n",
		"for f in *; do git add $f; done", "git a \\", "git a #", "git a <<E\n$x\nE"} {
		f.Add(command)
	}
	git := policy(f, permission.ModeDefault, []string{"Bash(git *)"}, nil)
	noGit := policy(f, permission.ModeBypass, nil, []string{"Bash(git *)"})
	noRemove := policy(f, permission.ModeBypass, nil, []string{"Bash(rm *)"})
	auto := policy(f, permission.ModeAuto, nil, nil)
	f.Fuzz(func(t *testing.T, command string) {
		if text, err := json.Marshal(command); err == nil { // as it comes out of JSON
			require.NoError(t, json.Unmarshal(text, &command))
		}
		for _, tail := range []string{"\n\nrm x", "\n\n(rm x)", "\n\n\"r\"'m' x", "\n\ngit $(rm x)", "\n\nX=1 rm x"} {
			if checkBash(git, command) == nil {
				require.ErrorIs(t, checkBash(noGit, command), permission.ErrDenied)
				require.ErrorIs(t, checkBash(git, command+tail), permission.ErrPattern)
			}
			require.ErrorIs(t, checkBash(noRemove, command+tail), permission.ErrDenied)
			if checkBash(auto, command) == nil {
				require.ErrorIs(t, checkBash(auto, command+tail), permission.ErrMode)
			}
		}
	})
}

// A rule is invalid, or denies in the disallowed list what it allows in the allowed list.
func FuzzRule(f *testing.F) {
	for _, rule := range []string{
		"Bash(git *)", "Bash(git:*)", "Bash(* x * y)", "Read(a/**)", "Edit(*.{go,md})", "Write(/a/)", "Read([!a]b)",
		"WebFetch(domain:*.a.b)", "Skill(a*)", "Task(x)",
		"Bash(a*b)", "mcp__a", "mcp__a__*", "mcp__a__b(c)", "look", "Bash(", "Read(!a)", "Bash(a b) ", "Read(**/a/**/b/)", `Read(a\*)`,
	} {
		for _, value := range []string{"git status", "a/b/c.go", "/work/a/x", "https://x.a.b/", "a '' '' b", "x"} {
			f.Add(rule, value)
		}
	}
	keys := map[string]string{"Bash": "command", "WebFetch": "url", "Skill": "skill", "Task": "subagent_type"}
	f.Fuzz(func(t *testing.T, rule, value string) {
		allow, err := permission.New(permission.Config{Mode: permission.ModeBypass, Allowed: []string{rule}, CWD: "/work"})
		deny, wrong := permission.New(permission.Config{Mode: permission.ModeBypass, Disallowed: []string{rule}, CWD: "/work"})
		require.Equal(t, err == nil, wrong == nil)
		if err != nil {
			return
		}
		name, _, _ := strings.Cut(strings.TrimSpace(rule), "(")
		for _, tool := range []string{"Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "Skill", "Task",
			strings.TrimSpace(name), name + "__x"} {
			key := keys[tool]
			if key == "" {
				key = "file_path"
			}
			in := input(key, value)
			if check(allow, tool, false, in) == nil {
				require.ErrorIs(t, check(deny, tool, false, in), permission.ErrDenied, tool)
				require.True(t, allow.Offers(permission.Tool{Name: tool}))
			}
			if tool == "Read" && deny.Hides("x/"+value) && value != "" && value != "." {
				require.Equal(t, permission.ErrDenied, check(deny, "Read", true, input(key, "x/"+value)))
			}
		}
	})
}
