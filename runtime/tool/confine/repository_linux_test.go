package confine_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

// executed has, for each path that the table of SECURITY.md names, the script that makes it a file
// of a repository, and the command of git that executes ATTACK, which is in it.
var executed = map[string]struct{ setUp, git string }{
	".git/hooks/pre-commit":             {"echo ATTACK > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", "git commit --allow-empty -qm x"},
	".git/config":                       {"git config core.fsmonitor ATTACK", "git status"},
	"vendor/copy/.git/config":           {"git init -q vendor/copy; git -C vendor/copy config core.fsmonitor ATTACK", "git -C vendor/copy status"},
	"lib/.git":                          {"git init -q --separate-git-dir=other lib; git -C lib config core.fsmonitor ATTACK", "git -C lib status"},
	".husky/pre-commit":                 {"git config core.hooksPath .husky; mkdir .husky; echo ATTACK > .husky/pre-commit; chmod +x .husky/pre-commit", "git commit --allow-empty -qm x"},
	"tools/hooks/pre-commit":            {"git config core.hooksPath .husky; mkdir -p tools/hooks; ln -s tools/hooks .husky; echo ATTACK > .husky/pre-commit; chmod +x .husky/pre-commit", "git commit --allow-empty -qm x"},
	".git/config.worktree":              {"git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ATTACK", "git status"},
	".git/commondir":                    {"git init -q other; git -C other config core.fsmonitor ATTACK; echo ../other/.git > .git/commondir", "git status"},
	".git/modules/lib/hooks/pre-commit": {submodule + "echo ATTACK > .git/modules/lib/hooks/pre-commit; chmod +x .git/modules/lib/hooks/pre-commit", "git -C lib commit --allow-empty -qm x"},
	".git/modules/lib/config":           {submodule + "git -C lib config core.fsmonitor ATTACK", "git -C lib status"},
	"hooks/pre-commit":                  {"git config core.hooksPath hooks; mkdir hooks; echo ATTACK > hooks/pre-commit; chmod +x hooks/pre-commit", "git commit --allow-empty -qm x"},
	"copy.git/config":                   {"git init -q --bare copy.git; git -C copy.git config core.bare false; git -C copy.git config core.worktree ..; git -C copy.git config core.fsmonitor ATTACK", "git -C copy.git status"},
	"filter.sh":                         {"git config filter.x.clean ./filter.sh; echo '* filter=x' > .gitattributes; echo ATTACK > filter.sh; chmod +x filter.sh; echo > new", "git add new"},
}

const submodule = `git submodule --quiet add "$PWD/../repo" lib; `

// The table of SECURITY.md says what is protected in a repository, and what git executes.
func TestTableOfARepository(t *testing.T) {
	text, err := os.ReadFile("../../../SECURITY.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "### In a repository\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([^`]*)`.*\\| (.*) \\| (.*) \\|$").FindAllStringSubmatch(section, -1)
	require.Len(t, rows, len(executed))
	for _, row := range rows {
		path := row[1]
		t.Run(path, func(t *testing.T) {
			require.Contains(t, executed, path)
			marker := filepath.Join(t.TempDir(), "marker")
			attack := "touch " + marker
			dir := filepath.Join(setUpRepositories(t, "git init -q work; cd work; "+strings.ReplaceAll(executed[path].setUp, "ATTACK", quoted(attack))), "work")
			git := exec.Command("/bin/bash", "-c", executed[path].git)
			git.Dir, git.Env = dir, append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
			output, _ := git.CombinedOutput()
			require.FileExists(t, marker, "git does not execute it: %s", output)

			require.Equal(t, row[2] == "need a pattern", isRefused(t, dir, path), "file tools")
			before, err := os.ReadFile(filepath.Join(dir, path))
			require.NoError(t, err)
			said := inBox(t, dir, "echo '# changed' >> "+path+"; rm -f "+path+"; mv "+path+" moved")
			after, err := os.ReadFile(filepath.Join(dir, path))
			changed := err != nil || string(after) != string(before)
			require.Equal(t, row[3] == "can change it", changed, "commands: %s", said)
			require.Equal(t, row[3] == "read-only", strings.Contains(said, "Read-only file system"), said)
		})
	}
}

func quoted(text string) string { return "'" + text + "'" }

// isRefused reports whether the mode that accepts edits refuses a change of a path.
func isRefused(t *testing.T, dir, path string) bool {
	files, err := filesafe.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, files.Close()) }()
	p, err := permission.New(permission.Config{Mode: permission.ModeAcceptEdits, CWD: dir, Resolve: files.Resolve})
	require.NoError(t, err)
	input, err := json.Marshal(map[string]string{"file_path": path})
	require.NoError(t, err)
	_, err = p.Check(t.Context(), permission.Tool{Name: "Edit"}, input)
	if err != nil {
		require.ErrorIs(t, err, permission.ErrProtected)
	}
	named, listErr := permission.New(permission.Config{Allowed: []string{"Edit(" + path + ")"}, CWD: dir, Resolve: files.Resolve})
	require.NoError(t, listErr)
	_, listErr = named.Check(t.Context(), permission.Tool{Name: "Edit"}, input)
	require.NoError(t, listErr, "a pattern names it")
	denied, listErr := permission.New(permission.Config{Mode: permission.ModeBypass, Disallowed: []string{"Edit(" + path + ")"}, CWD: dir, Resolve: files.Resolve})
	require.NoError(t, listErr)
	_, listErr = denied.Check(t.Context(), permission.Tool{Name: "Write"}, input)
	require.Error(t, listErr, "a rule denies it")
	return err != nil
}
