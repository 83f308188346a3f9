package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/deeptree"
	"github.com/seed93082962/agenthost/internal/sandbox"
)

// dotted is a rule for names.
func dotted(name string) bool { return strings.HasPrefix(name, ".") && name != ".gitignore" }

// tree creates files. A name with " -> " is a link, one with "/" at the end a directory.
func tree(t testing.TB, dir string, names ...string) {
	for _, name := range names {
		path, target, link := strings.Cut(filepath.Join(dir, name), " -> ")
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case link:
			require.NoError(t, os.Symlink(target, path))
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(path, 0o755))
		default:
			require.NoError(t, os.WriteFile(path, []byte("original"), 0o644))
		}
	}
}

// A command cannot change, rename, replace or delete a protected path that exists, at any depth.
func TestProtectedPaths(t *testing.T) {
	elsewhere := t.TempDir()
	for name, work := range map[string]string{"a directory": t.TempDir(), "a link to it": filepath.Join(elsewhere, "link")} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if work != dir && strings.HasSuffix(work, "link") {
				require.NoError(t, os.Symlink(dir, work))
			} else {
				dir = work
			}
			tree(t, dir, ".envrc", ".vscode/tasks.json", "a/b/c/.husky/pre-commit", "a/.idea/", "vendor/x/.git/hooks/post-checkout", "vendor/x/.git/config",
				".claude -> conf/claude", "conf/claude/settings.json", "a/.profile -> ../conf/profile", "conf/profile", "agents.yaml", "home/skills/s/SKILL.md",
				".gitignore", "plain", ".git/config", ".git/hooks/pre-commit", ".git/HEAD", ".git/objects/", "sub/permitted/.cache/x", "sub/.env",
				".config/own/file", ".config/other")
			s := open(t, func(p *sandbox.Policy) {
				p.Dir, p.Protects = work, dotted
				p.Protected = []string{filepath.Join(work, "agents.yaml"), filepath.Join(dir, "home"), filepath.Join(dir, "missing"), elsewhere}
				p.Write = []string{filepath.Join(dir, "sub/permitted"), filepath.Join(dir, ".config/own")}
			})
			for _, path := range []string{".envrc", ".vscode/tasks.json", "a/b/c/.husky/pre-commit", "vendor/x/.git/hooks/post-checkout", "vendor/x/.git/config",
				".claude/settings.json", "conf/claude/settings.json", "conf/profile", "a/.profile", "agents.yaml", "home/skills/s/SKILL.md", ".git/config", ".git/hooks/pre-commit", "sub/.env", ".config/other"} {
				output, _ := bash(t, s, fmt.Sprintf("echo attack >> %[1]s; echo attack > %[1]s; chmod 777 %[1]s; sed -i s/o/x/ %[1]s; ln %[1]s hard && echo x >> hard; rm -f hard", path))
				require.Contains(t, output, "Read-only file system", path)
				content, err := os.ReadFile(filepath.Join(dir, path))
				require.NoError(t, err)
				require.Equal(t, "original", string(content), path)
			}
			for _, path := range []string{".envrc", ".vscode", "a/b/c/.husky", "a/.idea", "vendor/x/.git", ".git", ".git/hooks", ".git/config", "agents.yaml", "home", "conf/claude", ".config"} {
				output, _ := bash(t, s, fmt.Sprintf("mv %[1]s moved; rm -r %[1]s; touch new; mv -T new %[1]s; mkdir -p %[1]s/new; touch %[1]s/new/x", path))
				require.NotEmpty(t, output, path)
				require.NoFileExists(t, filepath.Join(dir, "moved"), path)
				if path != ".git" {
					require.NoDirExists(t, filepath.Join(dir, path, "new"), path)
				}
				_, err := os.Lstat(filepath.Join(dir, path))
				require.NoError(t, err, path)
			}
			output, err := bash(t, s, "set -e; echo 1 >> .gitignore; echo 1 > plain; mkdir -p a/new; mkdir -p .git/objects; echo 1 > .git/HEAD; echo 1 > .git/objects/x; echo 1 > sub/permitted/.cache/x; echo 1 > .config/own/file; echo 1 > conf/other; cat .envrc")
			require.NoError(t, err, output)
		})
	}
}

// What cannot be read, and so cannot be searched, is read-only: a command could have made it so.
func TestProtectedPathsInUnreadableDirectories(t *testing.T) {
	for _, mode := range []os.FileMode{0, 0o400, 0o100} {
		dir := t.TempDir()
		tree(t, dir, "closed/.git/config", "plain")
		closed := filepath.Join(dir, "closed")
		require.NoError(t, os.Chmod(closed, mode))
		t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
		s := open(t, func(p *sandbox.Policy) { p.Dir, p.Protects = dir, dotted })
		output, _ := bash(t, s, "chmod 700 closed; echo attack > closed/.git/config; mv closed open; echo attack > open/.git/config; echo 1 > plain")
		require.NotContains(t, output, "plain")
		if _, err := os.Stat(closed); err != nil { // root can read each directory, and so move this one
			closed = filepath.Join(dir, "open")
		}
		require.NoError(t, os.Chmod(closed, 0o700))
		content, err := os.ReadFile(filepath.Join(closed, ".git/config"))
		require.NoError(t, err)
		require.Equal(t, "original", string(content), mode)
	}
}

// The search has a bound. A directory for which it is reached is read-only as a whole, and others
// are not.
func TestProtectedPathsOfALargeDirectory(t *testing.T) {
	dir := t.TempDir()
	for i := range 700 {
		tree(t, dir, fmt.Sprintf("modules/p%d/.npmignore", i), fmt.Sprintf("modules/p%d/index.js", i))
	}
	tree(t, dir, "src/.env", "src/main.go", "zzz/.env", "zzz/file")
	s := open(t, func(p *sandbox.Policy) { p.Dir, p.Protects = dir, dotted })
	output, err := bash(t, s, "echo 1 > src/main.go && echo 1 > zzz/file && touch new && for f in src/.env zzz/.env modules/p600/.npmignore modules/p1/index.js; do echo attack > $f && echo $f; done; true")
	require.NoError(t, err, output)
	require.Equal(t, 4, strings.Count(output, "Read-only file system"), output)
	s = open(t, func(p *sandbox.Policy) {
		p.Dir, p.Protects, p.Write = dir, dotted, []string{filepath.Join(dir, "modules")}
	})
	output, err = bash(t, s, "echo 1 > modules/p600/.npmignore && echo 1 > modules/p1/index.js && touch modules/.package-lock.json && ! touch src/.env")
	require.NoError(t, err, output)
	s = open(t, func(p *sandbox.Policy) { p.Dir, p.Protects, p.Write = dir, dotted, []string{dir} })
	output, err = bash(t, s, "echo 1 > src/.env && mv src/.env .env")
	require.NoError(t, err, output)
}

// Git works in the repository of the working directory, without the files that name programs.
func TestProtectedRepository(t *testing.T) {
	dir := t.TempDir()
	unprotected := open(t, func(p *sandbox.Policy) { p.Dir = dir })
	output, err := bash(t, unprotected, "git init -q --template= . && git config user.email a@b && git config user.name a && ls .git/hooks")
	require.ErrorContains(t, err, "exit status 2", output)
	s := open(t, func(p *sandbox.Policy) { p.Dir, p.Protects = dir, dotted })
	output, err = bash(t, s, "echo a > a && git add a && git commit -qm first && git checkout -qb other && git tag x && git gc -q && git stash -q; git log --format=%s")
	require.NoError(t, err, output)
	require.Equal(t, "first\n", output)
	for _, script := range []string{"git config core.fsmonitor x", "echo x > .git/hooks/pre-commit", "mv .git x", "mv .git/hooks x && mkdir .git/hooks", "rm .git/config", "rm -r .git/hooks && mkdir .git/hooks"} {
		output, err = bash(t, s, script)
		require.Error(t, err, script+output)
	}
}

// A directory that is deeper than a path can be is read-only, and commands still start.
func TestDeepDirectory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, func(p *sandbox.Policy) { p.Dir, p.Protects = dir, dotted })
	for _, deepen := range []string{
		`for i in range(2500): os.mkdir("d"); os.chdir("d")`,
		`for i in range(20): os.mkdir("." + "d" * 200); os.chdir("." + "d" * 200)`,
		`for i in range(20): os.mkdir("e" * 200); os.chdir("e" * 200); open("." + "x" * 200, "w")`,
	} {
		output, err := bash(t, s, "python3 <<'END'\nimport os\n"+deepen+"\nEND")
		require.NoError(t, err, output)
		output, err = bash(t, s, "echo works > file; cat file")
		require.NoError(t, err, output)
		require.Equal(t, "works\n", output)
	}
	output, _ := bash(t, s, "echo > d/new; echo > eeee*/new")
	require.Contains(t, output, "d/new: Read-only file system")
	require.NoError(t, deeptree.Remove(dir))
}

// A command cannot remove the protection of what a link leads to with many names next to the link.
func TestLinksAmongManyNames(t *testing.T) {
	dir := t.TempDir()
	tree(t, dir, "a/b/", "editor/settings.json")
	require.NoError(t, os.Symlink("../../editor", filepath.Join(dir, "a/b/.vscode")))
	s := open(t, func(p *sandbox.Policy) { p.Dir, p.Protects = dir, dotted })
	output, err := bash(t, s, "for i in {1..900}; do echo > a/b/.$i; done; echo own > a/own")
	require.NoError(t, err, output)
	output, _ = bash(t, s, "echo attack > editor/settings.json; echo attack > a/b/c; cat a/own; echo own > own; cat own")
	require.Contains(t, output, "editor/settings.json: Read-only file system")
	require.Contains(t, output, "a/b/c: Read-only file system")
	require.Contains(t, output, "own\nown\n")
}

// The links that a command leaves do not delay the next one: their targets are found in a
// bounded number of steps, or the directory is read-only.
func TestLongLinks(t *testing.T) {
	dir := t.TempDir()
	s := open(t, func(p *sandbox.Policy) { p.Dir, p.Protects = dir, dotted })
	for i := range 300 { // of ordinary length
		at := fmt.Sprintf("packages/p%d/", i)
		tree(t, dir, at)
		require.NoError(t, os.Symlink("../../eslintrc", filepath.Join(dir, at, ".eslintrc")))
	}
	tree(t, dir, "eslintrc")
	output, err := bash(t, s, "echo own > packages/p7/own && cat packages/p7/own; echo attack > eslintrc")
	require.Error(t, err)
	require.Contains(t, output, "own\n")
	require.Contains(t, output, "Read-only file system")
	// Each of 2,000 links leads through 38 others, whose paths have 1,401 names.
	output, err = bash(t, s, `python3 -c '
import os
deep = "d/" * 700
top = os.getcwd()
for _ in range(700):
    os.mkdir("d")
    os.chdir("d")
os.chdir(top)
last = "eslintrc"
for i in range(38):
    os.symlink(deep + "../" * 700 + last, "c%d" % i)
    last = "c%d" % i
for i in range(2000):
    os.symlink(last, ".l%d" % i)
print("created")'`)
	require.NoError(t, err, output)
	require.Equal(t, "created\n", output)
	// The kernel counts the links again when a mount interrupts its walk, and 40 are its limit.
	output, err = bash(t, s, "for i in {1..50}; do cat c37 && break; done; echo attack > eslintrc")
	require.Error(t, err)
	require.Contains(t, output, "original")
	require.Contains(t, output, "Read-only file system")
}
