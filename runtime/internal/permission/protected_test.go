package permission_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

// The modes approve no write to a name that begins with a dot, nor to what such a name leads to.
func TestWritesToProtectedPathsAreNotApproved(t *testing.T) {
	dir, _ := realDir(t)
	resolve := resolveIn(t, dir)
	for _, name := range []string{
		"agents.yaml", "conf/real.yaml", "dotfiles/gitconfig", "editor/settings.json", "deep/editor/settings.json", "deep/er/tasks/x.json",
		"store/config", "other/place/x", "plain/ignore",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	for link, to := range map[string]string{
		"linked.yaml": "conf/real.yaml", "chain.yaml": "linked.yaml", ".gitconfig": "dotfiles/gitconfig", ".vscode": "editor",
		"deep/.vscode": "editor", "deep/er/.idea": "../er/tasks", "a/b/c/.Config": "../../../store", ".chain": "into", "into": "other/place",
		".gitignore": "plain/ignore", "plain/link": "x", "up/.env": "../dotfiles/missing",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(link)), 0o700))
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	protected := []string{"agents.yaml", dir + "/chain.yaml", dir + "/prompts/coder.md", "./tools/count.ts", dir + "/skills", "/etc/agents.yaml", "not-yet.yaml"}
	for path, approved := range map[string]bool{
		".git/config": false, ".git/hooks/pre-commit": false, "module/.git": false, "a/b/.git/config": false, ".GIT/config": false,
		".github/workflows/ci.yml": false, ".github/x": false, ".gitlab-ci.yml": false, ".circleci/config.yml": false, ".devcontainer/devcontainer.json": false,
		".cargo/config.toml": false, ".yarnrc.yml": false, ".eslintrc.js": false, ".husky/_/h": false, ".claude/settings.json": false, ".cursorrules": false,
		"sub/.bashrc": false, ".env": false, ".env.local": false, "...": false, ".x": false, "src/.hidden/deep/file.go": false,
		"./src/../.envrc": false, "\u200c.git/config": false, ".git /config": false, ".gitignore.d/x": false,

		".gitignore": true, "src/.gitignore": true, ".gitattributes": true, ".dockerignore": true, ".editorconfig": true, ".env.example": true, ".GitIgnore": true,
		"main.go": true, "x.git/config": true, "HEAD": true, "lefthook.yml": true, "git~1/config": true, "a..b": true, "plain/ignore": true, "plain/new": true,

		".vscode/settings.json": false, "editor/settings.json": false, "editor/new.json": false, "EDITOR/new.json": false,
		"deep/.vscode/settings.json": false, "deep/editor/settings.json": false, "deep/editor/new.json": false, "deep/er/tasks/x.json": false, "deep/er/other": true,
		"store/config": false, "store/new/deep/file": false, "other/place/x": false, "into/x": false, "other/x": true, "dotfiles/gitconfig": false, "dotfiles/other": true,
		"dotfiles/missing": false,

		"agents.yaml": false, "AGENTS.yaml": false, "linked.yaml": false, "conf/real.yaml": false, "conf/other.yaml": true,
		"chain.yaml": false, dir + "/agents.yaml": false, "src/up/agents.yaml": false, "prompts/coder.md": false, "prompts/other.md": true,
		"tools/count.ts": false, "tools/other.ts": true, "skills/new/SKILL.md": false, "not-yet.yaml": false, ".agents/skills/x/SKILL.md": false,
	} {
		for _, mode := range []permission.Mode{permission.ModeAcceptEdits, permission.ModeAuto} {
			p, err := permission.New(permission.Config{Mode: mode, Resolve: resolve, CWD: dir, AgentHome: ".agents", Protected: protected})
			require.NoError(t, err)
			for _, tool := range []string{"Write", "Edit"} {
				if err := check(p, tool, false, input("file_path", path)); approved {
					require.NoError(t, err, path)
				} else {
					require.Equal(t, permission.ErrProtected, err, path)
				}
				listed, err := permission.New(permission.Config{Mode: mode, Allowed: []string{tool}, Resolve: resolve, CWD: dir, AgentHome: ".agents", Protected: protected})
				require.NoError(t, err)
				require.Equal(t, approved, check(listed, tool, false, input("file_path", path)) == nil, "a list does not approve more: %s", path)
			}
		}
	}
	p, err := permission.New(permission.Config{Allowed: []string{"Edit(deep/editor/**)", "Edit"}, Resolve: resolve, CWD: dir})
	require.NoError(t, err)
	require.NoError(t, check(p, "Write", false, input("file_path", "deep/editor/new.json")), "a pattern names what the link leads to")
}

// A link of a protected name is found wherever it is, by one search for many checks. If there are
// too many, each change needs a pattern.
func TestLinksInALargeDirectory(t *testing.T) {
	dir := t.TempDir()
	const dirs, files = 11, 10_000
	for i := range dirs {
		at := filepath.Join(dir, "module", strings.Repeat("d", i+1))
		require.NoError(t, os.MkdirAll(at, 0o700))
		first := filepath.Join(at, "first")
		require.NoError(t, os.WriteFile(first, nil, 0o600))
		for k := range files {
			require.NoError(t, os.Link(first, filepath.Join(at, strconv.Itoa(k))))
		}
	}
	for _, name := range []string{"module/z/y/x", "editor", "other", "later", "src"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	require.NoError(t, os.Symlink("../../../../editor", filepath.Join(dir, "module/z/y/x/.vscode")))
	mode := func(allowed ...string) *permission.Policy {
		p, err := permission.New(permission.Config{Mode: permission.ModeAcceptEdits, Allowed: append(allowed, "Write"), CWD: dir, Resolve: resolveIn(t, dir)})
		require.NoError(t, err)
		return p
	}
	write := func(p *permission.Policy, path string) error {
		return check(p, "Write", false, input("file_path", path))
	}
	p := mode()
	require.Equal(t, permission.ErrProtected, write(p, "editor/settings.json"))
	require.NoError(t, write(p, "other/settings.json"))
	require.Less(t, testing.AllocsPerRun(3, func() { _ = write(p, "other/settings.json") }), 1000.0)
	require.NoError(t, os.Symlink("later", filepath.Join(dir, ".idea")))
	require.Equal(t, permission.ErrProtected, write(mode(), "later/x"))
	require.Eventually(t, func() bool { return write(p, "later/x") != nil }, time.Minute, time.Second, "links are searched again")
	for i := range 1001 {
		require.NoError(t, os.Symlink("nothing", filepath.Join(dir, "module", "."+strconv.Itoa(i))))
	}
	for _, path := range []string{"src/a.go", "other/x", "new.go"} {
		require.Equal(t, permission.ErrProtected, write(mode(), path))
	}
	require.NoError(t, write(mode("Edit(src/**)"), "src/a.go"))
	require.NoError(t, write(mode("Edit(new.go)"), "new.go"))
	require.Equal(t, permission.ErrProtected, write(mode("Edit(src/**)"), "other/x"))
}

// Only a pattern that names a protected path approves a change, or bypassPermissions.
func TestPatternsThatNameAProtectedPath(t *testing.T) {
	for path, named := range map[string][]string{
		".git/hooks/pre-commit": {".git/**", ".git", "/.git/hooks/*", "**/.git/**", ".git/", "./.git/hooks/pre-commit"},
		".git/config":           {".git/config", ".git/*"},
		"sub/.git/config":       {"sub/.git/**", "**/.git/**", ".git", "*/.git/config"},
		".GIT/config":           {".GIT/**", ".GIT/config"},
		".gitconfig":            {".gitconfig", "**/.gitconfig"}, "x/.config/git/ignore": {"**/.config/**", "x/.config/git/ignore"},
		".husky/pre-commit": {".husky/**", ".husky"}, ".Husky/_/h": {".Husky/**"}, "sub/.husky/pre-push": {"**/.husky/*"},
		"a/.envrc": {"a/.envrc"}, ".idea/x/y.xml": {".idea/"}, ".a/.b/c": {".a/**"},
		".github/workflows/ci.yml":  {".github/**", ".github/workflows/*.yml", "**/.github/workflows/**"},
		".agents/skills/x/SKILL.md": {".agents/**", ".agents"}, "conf/agents.yaml": {"conf/agents.yaml", "agents.yaml", "*/agents.yaml"},
		"CONF/AGENTS.yaml": {"CONF/AGENTS.yaml", "AGENTS.yaml"},
		".git /config":     nil, ".g\u200cit/config": nil, ".hus\u212ay/x": nil, ".ba\u017fhrc": nil, ".git::$INDEX_ALLOCATION/config": nil,
	} {
		mode := func(mode permission.Mode, allowed ...string) *permission.Policy {
			p, err := permission.New(permission.Config{Mode: mode, Allowed: allowed, CWD: "/work", AgentHome: ".agents", Protected: []string{"conf/agents.yaml"}})
			require.NoError(t, err)
			return p
		}
		in := input("file_path", path)
		for _, m := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits, permission.ModeAuto, permission.ModeDontAsk} {
			for _, pattern := range named {
				require.NoError(t, check(mode(m, "Edit("+pattern+")"), "Write", false, in), "%s %s", pattern, path)
				require.NoError(t, check(mode(m, "Edit", "Write", "Write("+pattern+")"), "Write", false, in), "%s %s", pattern, path)
				require.Equal(t, permission.ErrNotListed, check(mode(m, "Write("+pattern+")"), "Edit", false, in))
			}
			for _, allowed := range [][]string{{"Edit", "Write"}, {"Edit(**)"}, {"Edit(*)"}, {"Edit(**/*)", "Edit"}, {"Edit(.*/**)", "Edit(.*)", "Edit"}, {"Edit(**/pre-commit)", "Edit"},
				{"Edit(**/hooks/**)", "Edit"}, {"Edit({.git,.husky,.agents,.ssh}/**)", "Edit"}, {"Edit(.gi[t]/**)", "Edit"}, {"Edit(*.yaml)", "Edit"}, {"Edit(conf/**)", "Edit"},
				{"Edit(**/workflows/**)", "Edit(**/git/**)", "Edit"}, {"Edit(*/workflows/*)", "Edit(x/*/git/*)", "Edit"}, {"Edit", "Read(.git/**)", "Bash(.git)"},
				{"Edit", "Edit(src/.git/**)"}, {"Write", "Edit(?git/**)"}, {"Edit", "Edit(.b/**)"}} {
				err := check(mode(m, allowed...), "Write", false, in)
				require.ErrorIs(t, err, permission.ErrProtected, "%s %s", allowed, path)
			}
		}
		require.NoError(t, check(mode(permission.ModeBypass, "Edit"), "Write", false, in), path)
		parent := mode(permission.ModeAcceptEdits, "Edit")
		child, err := parent.Narrow([]string{"Edit(" + path + ")"}, nil)
		require.NoError(t, err)
		require.Error(t, check(child, "Write", false, in), "the list of a subagent approves nothing: %s", path)
	}
}

// The end of a call ends its decision.
func TestACheckEndsWithItsContext(t *testing.T) {
	dir, resolve := realDir(t)
	require.NoError(t, os.Symlink("src", filepath.Join(dir, ".linked")))
	p, err := permission.New(permission.Config{Mode: permission.ModeAcceptEdits, Resolve: resolve, CWD: dir})
	require.NoError(t, err)
	ended := errors.New("the call has ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	_, err = p.Check(ctx, permission.Tool{Name: "Write"}, input("file_path", "new.go"))
	require.Equal(t, ended, err)
}

// A path from a model is bounded before anything is done with it, whatever the mode is.
func TestLongPaths(t *testing.T) {
	dir, resolve := realDir(t)
	resolved := 0
	counted := func(path string) (string, error) {
		resolved++
		return resolve(path)
	}
	for name, row := range map[string]struct {
		path string
		long bool
	}{
		"4,096 bytes":          {strings.Repeat("a/", 200) + strings.Repeat("b", 3696), false},
		"4,097 bytes":          {strings.Repeat("b", 4097), true},
		"256 names":            {strings.Repeat("a/", 255) + "b", false},
		"257 names":            {strings.Repeat("a/", 256) + "b", true},
		"257 absolute names":   {strings.Repeat("/a", 257), true},
		"many slashes":         {strings.Repeat("/", 3000) + "a", false},
		"80 kB":                {strings.Repeat("a/", 40_000) + "b", true},
		"80 kB of parents":     {strings.Repeat("a/../", 16_000), true},
		"a long name of a dot": {"." + strings.Repeat("x", 5000), true},
	} {
		for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits, permission.ModeBypass, permission.ModeAuto} {
			p, err := permission.New(permission.Config{Mode: mode, Disallowed: []string{"Edit(secret/**)", "Read(*.key)"}, Resolve: counted, CWD: dir})
			require.NoError(t, err)
			for tool, field := range map[string]string{"Read": "file_path", "Write": "file_path", "Edit": "file_path", "Grep": "path", "Glob": "path"} {
				before := resolved
				err := check(p, tool, tool == "Read", input(field, row.path))
				require.Equal(t, row.long, errors.Is(err, permission.ErrLongPath), "%s %s: %v", name, tool, err)
				require.True(t, !row.long || resolved == before, "%s: it was resolved", name)
			}
		}
	}
}

// The outermost protected directory is the one that a pattern has to name.
func TestProtectedPathsInAProtectedDirectory(t *testing.T) {
	for _, protected := range [][]string{{"conf", "conf/agents.yaml"}, {"conf/agents.yaml", "conf"}, {"odd/*", "conf"}} {
		for pattern, path := range map[string]string{"agents.yaml": "conf/agents.yaml", "*/agents.yaml": "conf/agents.yaml", "odd/*": "odd/*"} {
			p, err := permission.New(permission.Config{Allowed: []string{"Edit", "Edit(" + pattern + ")"}, CWD: "/work", Protected: append(protected, "odd/*")})
			require.NoError(t, err)
			require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", path)), pattern)
		}
		p, err := permission.New(permission.Config{Allowed: []string{"Edit", "Edit(conf/**)"}, CWD: "/work", Protected: protected})
		require.NoError(t, err)
		require.NoError(t, check(p, "Write", false, input("file_path", "conf/agents.yaml")))
		require.NoError(t, check(p, "Write", false, input("file_path", "agents.yaml")))
	}
	dir, resolve := realDir(t)
	p, err := permission.New(permission.Config{Allowed: []string{"Write"}, CWD: dir, Resolve: resolve})
	require.NoError(t, err)
	for _, path := range []string{"../outside/key", "../outside/missing", "out/key"} {
		require.NoError(t, check(p, "Write", false, input("file_path", path)), "the tool rejects it")
	}
	p, err = permission.New(permission.Config{Mode: permission.ModeAcceptEdits, CWD: "/work", Protected: []string{"."}})
	require.NoError(t, err)
	require.Equal(t, permission.ErrProtected, check(p, "Write", false, input("file_path", "main.go")), "the whole working directory")
}

func TestDeniesRead(t *testing.T) {
	dir, resolve := realDir(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.WriteFile(filepath.Join(outside, "a.key"), nil, 0o600))
	for link, to := range map[string]string{"to-key": "a.key", "to-secret": dir + "/secrets/key", "to-source": dir + "/src/a.go"} {
		require.NoError(t, os.Symlink(to, filepath.Join(outside, link)))
	}
	for rule, paths := range map[string]map[string]bool{
		"Read(secrets/**)": {"secrets/key": true, "innocent": true, "dir/key": true, dir + "/innocent": true, "src/a.go": false,
			outside + "/to-secret": true, outside + "/to-source": false, outside + "/a.key": false, outside + "/missing": false},
		"Read(*.key)":  {outside + "/a.key": true, outside + "/to-key": true, outside + "/to-source": false, "x.key": true},
		"Read(/*.key)": {outside + "/a.key": false, "x.key": true, "src/x.key": false},
		"Read":         {"src/a.go": false}, // denies the tool, not a path
		"Edit(src/**)": {"src/a.go": false},
	} {
		p, err := permission.New(permission.Config{Disallowed: []string{rule}, Resolve: resolve, CWD: dir})
		require.NoError(t, err)
		for path, denied := range paths {
			require.Equal(t, denied, p.DeniesRead(path), "%s %s", rule, path)
		}
	}
}

// A call ends with its time, also while another one searches links.
func TestCallsDoNotWaitForASearch(t *testing.T) {
	dir, _ := realDir(t)
	require.NoError(t, os.Symlink("editor", filepath.Join(dir, ".vscode")))
	searching, proceed := make(chan struct{}), make(chan struct{})
	p, err := permission.New(permission.Config{Mode: permission.ModeAcceptEdits, CWD: dir, Resolve: func(path string) (string, error) {
		if path == ".vscode" {
			close(searching)
			<-proceed
		}
		return path, nil
	}})
	require.NoError(t, err)
	edit := func(ctx context.Context) error {
		_, err := p.Check(ctx, permission.Tool{Name: "Edit"}, []byte(`{"file_path":"main.go"}`))
		return err
	}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- edit(t.Context()) }()
	<-searching
	ctx, cancel := context.WithCancel(t.Context())
	go func() { second <- edit(ctx) }()
	cancel()
	select {
	case err := <-second:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		close(proceed)
		require.Fail(t, "the call waits for the search of another one")
	}
	close(proceed)
	require.NoError(t, <-first)
}
