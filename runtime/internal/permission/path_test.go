package permission_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

func TestPathPatterns(t *testing.T) {
	for _, row := range []struct {
		pattern, path   string
		allowed, denied bool
	}{
		{"a.go", "a.go", true, true},
		{"a.go", "sub/deep/a.go", true, true},
		{"a.go", "./sub//deep/../a.go", true, true},
		{"a.go", "/work/sub/a.go", true, true},
		{"a.go", "A.go", false, true}, // the file system may ignore letter case
		{"secrets/**", "Secrets/KEY", false, true},
		{"secrets/*", "secrets./key", false, true}, // these are one file on Windows
		{"key", "key:stream", false, true},
		{"key", "a/key .", false, true},
		{"az.go", "aZ.go", false, true},
		{"az.go", "Az.go", false, true},
		{"key", "key.", false, true},
		{"key", "key ", false, true},
		{"a.go", "...", false, false},
		{"...", "...", true, true},
		{"k.pem", "\u212a.pem", false, true}, // the Kelvin sign
		{"*.PEM", "a/b.pem", false, true},
		{"caf\u00e9", "cafe\u0301", false, true},
		{"cafe\u0301/**", "CAF\u00c9/x", false, true},
		{"[A-Z]x", "ax", false, true},
		{"[!A-Z]x", "bx", true, true},
		{".env", ".e\u200cnv", false, true},
		{"a.go", "xa.go", false, false},
		{"a.go", "a.go/b", true, true}, // a directory covers all below
		{"*.go", "sub/a.go", true, true},
		{"*.go", "sub/.go", true, true},
		{".env", "sub/.env", true, true},
		{".env", "sub/.env.local", false, false},
		{"/a.go", "a.go", true, true},
		{"/a.go", "sub/a.go", false, false},
		{"./a.go", "a.go", true, true},
		{"./a.go", "sub/a.go", false, false},
		{"sub/*.go", "sub/a.go", true, true},
		{"sub/*.go", "x/sub/a.go", false, false},
		{"sub/*.go", "sub/deep/a.go", false, false},
		{"sub/**/*.go", "sub/a.go", true, true},
		{"sub/**/*.go", "sub/very/deep/a.go", true, true},
		{"**/a.go", "a.go", true, true},
		{"**/sub/*.go", "x/y/sub/a.go", true, true},
		{"*.{js,ts}", "x/a.ts", true, true},
		{"*.{js,ts}", "x/a.tsx", false, false},
		{"[ab].go", "b.go", true, true},
		{"[!ab].go", "b.go", false, false},
		{`\*.go`, "*.go", true, true},
		{`\*.go`, "a.go", false, false},
		{"sub/", "sub/a.go", true, true},
		{"sub/", "x/sub/a.go", true, true},
		{"sub/", "sub", false, true}, // may be the directory
		{"sub/**", "sub/a/b", true, true},
		{"sub/**", "sub", false, true},
		{"/sub/**", "x/sub/a", false, false},
		{"*/**", "x/sub/a", true, true},
		{"*/**", "x", false, true},
		{"**", "x", true, true},
		{"**", "x/y", true, true},
		{"**", ".", false, false},
		{"**", "../x", false, true},
		{"**", "/etc/passwd", false, true},
		{"/**", "/etc/passwd", false, false}, // cannot be read anyway
		{"passwd", "/etc/passwd", false, true},
		{"work", "/work/a", false, false}, // relative to it
		{"*.go", "../work/a.go", true, true},
		{"*.go", "../workshop/a.go", false, true},
		{"sub", "sub\\a", false, false}, // a backslash is an ordinary character
	} {
		t.Run(row.pattern+" "+row.path, func(t *testing.T) {
			for rule, tools := range map[string][]string{"Read": {"Read"}, "Edit": {"Edit", "Write"}, "Write": {"Write"}} {
				for _, tool := range tools {
					in := input("file_path", row.path)
					allow := check(policy(t, permission.ModeBypass, []string{rule + "(" + row.pattern + ")"}, nil), tool, false, in)
					deny := check(policy(t, permission.ModeBypass, nil, []string{rule + "(" + row.pattern + ")"}), tool, false, in)
					if row.allowed {
						require.NoError(t, allow)
					} else {
						require.Equal(t, permission.ErrPattern, allow)
					}
					if row.denied {
						require.Equal(t, permission.ErrDenied, deny)
					} else {
						require.NoError(t, deny)
					}
				}
			}
		})
	}
}

// realDir returns a working directory with links, and the function that resolves paths in it.
func realDir(t testing.TB) (dir string, resolve func(string) (string, error)) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir = filepath.Join(root, "cwd")
	for _, name := range []string{"cwd/src", "cwd/secrets", "cwd/.git/hooks", "cwd/config/agents", "cwd/sub/.git", "outside"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, name), 0o700))
	}
	for _, name := range []string{"cwd/src/a.go", "cwd/secrets/key", "outside/key"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	for link, to := range map[string]string{
		"innocent": "secrets/key", "dir": "secrets", "out": "../outside", "hooks": ".git/hooks", ".agents": "config/agents",
		"src/up": "..", "secrets/open": "../src/a.go", "loop": "loop", "again": "dir",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	return dir, func(p string) (string, error) {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		rest := ""
		for {
			target, err := filepath.EvalSymlinks(p)
			if errors.Is(err, fs.ErrNotExist) && p != dir {
				rest = filepath.Join(filepath.Base(p), rest)
				p = filepath.Dir(p)
				continue
			}
			if err != nil {
				return "", err
			}
			rel, err := filepath.Rel(dir, filepath.Join(target, rest))
			if err == nil && !filepath.IsLocal(rel) {
				err = errors.New("outside")
			}
			return filepath.ToSlash(rel), err
		}
	}
}

func TestPathsThroughLinks(t *testing.T) {
	dir, resolve := realDir(t)
	for _, row := range []struct {
		pattern, path   string
		allowed, denied bool
	}{
		{"secrets/**", "secrets/key", true, true},
		{"secrets/**", "innocent", true, true},
		{"secrets/**", "dir/key", true, true},
		{"secrets/**", "again/key", true, true},
		{"secrets/**", "dir/new", true, true},
		{"secrets/**", "src/up/secrets/key", true, true},
		{"secrets/**", "src/a.go", false, false},
		{"innocent", "innocent", false, true}, // leads elsewhere
		{"src/**", "secrets/open", true, true},
		{"src/**", "src/up/secrets/key", false, true},
		{"**", "out/key", false, true},
		{"/x/**", "out/key", false, true}, // leads outside
		{"/x/**", "loop", false, true},
		{"**", "../outside/key", false, true},
		{"/x/**", "../outside/key", false, false},
		{"**", dir + "/src/a.go", true, true},
		{"**", dir + "/../cwd/src/a.go", true, true},
		{"out", "out", false, true},
	} {
		t.Run(row.pattern+" "+row.path, func(t *testing.T) {
			check := func(allowed, disallowed []string) error {
				p, err := permission.New(permission.Config{Allowed: allowed, Disallowed: disallowed, Resolve: resolve, CWD: dir})
				require.NoError(t, err)
				return check(p, "Read", true, input("file_path", row.path))
			}
			rule := []string{"Read(" + row.pattern + ")"}
			require.Equal(t, row.allowed, check(rule, nil) == nil)
			require.Equal(t, row.denied, check(nil, rule) != nil)
		})
	}
}

func TestAcceptEditsApprovesWrites(t *testing.T) {
	dir, resolve := realDir(t)
	for path, approved := range map[string]bool{
		"a.go": true, "new/deep/a.go": true, dir + "/a.go": true, "secrets/key": true, "innocent": true,
		"src/up/a.go": true, ".gitignore": true, ".github/x": false,
		"../outside/key": false, "out/key": false, "out/new": false, "/etc/passwd": false, "loop": false,
		".git/config": false, ".GIT/config": false, ".git": false, "sub/.git/config": false, "sub/.Git": false,
		"hooks/pre-commit": false, "src/up/.git/config": false,
		".agents/skills/x/SKILL.md": false, ".AGENTS/x": false, ".agents": false, "config/agents/x": false,
		"config/other": true, ".agents2/x": false,
		"src/.agents/x": false, "HEAD": true, "sub/head": true, "HEAD/x": true, "dir/x/../../.git/x": false,
	} {
		for _, mode := range []permission.Mode{permission.ModeAcceptEdits, permission.ModeAuto} {
			for _, tool := range []string{"Write", "Edit"} {
				p, err := permission.New(permission.Config{Mode: mode, Resolve: resolve, CWD: dir, AgentHome: ".agents"})
				require.NoError(t, err)
				err = check(p, tool, false, input("file_path", path))
				if approved {
					require.NoError(t, err, path)
				} else {
					require.Error(t, err, path)
				}
				require.Equal(t, permission.ErrMode, check(p, tool, false, json.RawMessage(`{"file_path":1}`)))
			}
		}
	}
}

func TestHides(t *testing.T) {
	for name, row := range map[string]struct {
		allowed, disallowed []string
		hidden, shown       []string
	}{
		"no rules":    {nil, nil, nil, []string{"a", "a/b", ".", "./", "../a", "/a"}},
		"other tools": {[]string{"Grep", "Edit(a)"}, []string{"Edit", "Bash(x)"}, nil, []string{"a", "a/"}},
		"Read denied": {nil, []string{"Read"}, []string{"a", "a/b", "a/", "./"}, nil},
		"a directory denied": {nil, []string{"Read(/secrets/)"},
			[]string{"secrets/a", "secrets/b/c", "secrets/", "secrets", "./secrets/a"}, []string{"a", "x/secrets/a", "./"}},
		"all in one denied": {nil, []string{"Read(secret/**)"},
			[]string{"secret/a", "secret/b/", "secret/b/c", "secret/", "secret"}, []string{"secrets/", "x/secret/"}},
		"names denied": {nil, []string{"Read(.env)", "Read(*.key)"},
			[]string{".env", "x/.env", "x/y.key", "z.key/a", "../a"}, []string{"env", "x/"}},
		"files allowed": {[]string{"Read(src/*.go)", "Read(*.md)"}, nil, []string{"src/x.c", "src", "x"},
			[]string{"src/a.go", "x/y.md", "src/", "./"}},
		"allowed and free":     {[]string{"Read(src/*.go)", "Read"}, nil, nil, []string{"x", "src/"}},
		"allowed and denied":   {[]string{"Read(src/**)"}, []string{"Read(*.key)"}, []string{"src/a.key", "x"}, []string{"src/a"}},
		"Read is not listed":   {[]string{"Grep"}, nil, nil, []string{"a"}},
		"a pattern unlike any": {nil, []string{"Read(a/**/z)"}, []string{"a/z", "a/b/c/z", "a/z/y"}, []string{"a/", "a/b", "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(t, "", row.allowed, row.disallowed)
			for _, path := range row.hidden {
				require.True(t, p.Hides(path), path)
			}
			for _, path := range row.shown {
				require.False(t, p.Hides(path), path)
			}
		})
	}
}

func TestNoSearchStartsInAHiddenDirectory(t *testing.T) {
	dir, resolve := realDir(t)
	p, err := permission.New(permission.Config{Disallowed: []string{"Read(secrets/**)"}, Resolve: resolve, CWD: dir})
	require.NoError(t, err)
	for _, tool := range []string{"Grep", "Glob"} {
		for path, want := range map[string]error{
			"": nil, ".": nil, "src": nil, dir: nil, "secrets": permission.ErrDenied, "dir": permission.ErrDenied,
			"innocent": permission.ErrDenied, "src/up/secrets": permission.ErrDenied, "secrets/open": permission.ErrDenied,
		} {
			require.Equal(t, want, check(p, tool, true, input("path", path)), path)
		}
		require.NoError(t, check(p, tool, true, input("pattern", "secrets/*")), "files are hidden one by one")
	}
	require.NoError(t, check(policy(t, "", []string{"Grep", "Read(src/**)"}, nil), "Grep", true, input("path", "docs")))
	p, err = permission.New(permission.Config{Disallowed: []string{"Read(etc)", "Read(outside)"}, Resolve: resolve, CWD: dir})
	require.NoError(t, err)
	for _, path := range []string{"/etc", "../outside", "out"} { // the tool rejects them
		require.NoError(t, check(p, "Grep", true, input("path", path)), path)
	}
	hidden := policy(t, permission.ModeBypass, nil, []string{"Read"})
	require.NoError(t, check(hidden, "Grep", true, input("path", ".")), "every file is hidden")
	require.Equal(t, permission.ErrDenied, check(hidden, "Grep", true, input("path", "src")))
	require.NoError(t, check(policy(t, permission.ModeBypass, nil, []string{"Read(secrets)"}), "Write", false, input("file_path", "secrets")))
}

// A change is executed with the path that was judged: a link that is replaced after the check has
// no effect.
func TestChangesHaveTheJudgedPath(t *testing.T) {
	dir, resolve := realDir(t)
	for _, mode := range []permission.Mode{permission.ModeAcceptEdits, permission.ModeBypass, permission.ModeDefault} {
		p, err := permission.New(permission.Config{Mode: mode, Resolve: resolve, CWD: dir})
		require.NoError(t, err)
		for _, tool := range []string{"Write", "Edit"} {
			for path, want := range map[string]string{
				"a.go": "a.go", "./src//a.go": "./src//a.go", "new/x": "new/x", "innocent": "secrets/key", "dir/open": "src/a.go", "src/up/a.go": "a.go",
				"hooks/pre-commit": ".git/hooks/pre-commit", dir + "/src/a.go": "src/a.go", "out/key": "out/key", "loop": "loop",
			} {
				given := json.RawMessage(`{"FILE_PATH":"x","content":"<&","file_path":` + strconv.Quote(path) + `}`)
				judged, _ := p.Check(t.Context(), permission.Tool{Name: tool}, given)
				var fields map[string]string
				require.NoError(t, json.Unmarshal(judged, &fields))
				require.Equal(t, want, fields["file_path"], path)
				require.Equal(t, "<&", fields["content"])
				if want != path {
					require.Len(t, fields, 2, "no other member has the path")
				}
			}
		}
		judged, _ := p.Check(t.Context(), permission.Tool{Name: "Read", ReadOnly: true}, input("file_path", "innocent"))
		require.JSONEq(t, `{"file_path":"innocent"}`, string(judged))
	}
}
