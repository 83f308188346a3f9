package documents_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// snippet is Go code of a document. Its variables need not be declared.
type snippet struct {
	file, code string
}

// The Go code in package comments and Markdown files compiles, apart from undeclared variables and
// the mark "...".
func TestSnippetsCompile(t *testing.T) {
	packages := listPackages(t)
	overlay := map[string]string{}
	args := []string{"build", "-gcflags=-e", "-o", os.DevNull, "-overlay"}
	dir := t.TempDir()
	top, err := filepath.Abs("../..")
	require.NoError(t, err)
	all := snippets(t)
	require.Greater(t, len(all), 40)
	args = append(args, filepath.Join(dir, "overlay.json"))
	for i, s := range all {
		text, err := packages.program(s)
		if err != nil {
			t.Errorf("a snippet of %s: %v\n%s", s.file, err, s.code)
			continue
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		// Below the document, so that it may import internal packages.
		inside := filepath.Join(path.Dir(s.file), fmt.Sprintf("snippet%d", i))
		overlay[filepath.Join(top, inside, "snippet.go")] = file
		args = append(args, "./"+inside)
	}
	replace, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), replace, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, _ := cmd.CombinedOutput() // undeclared variables are errors
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "\t") {
			continue // a part of the error before it
		}
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "# ") || permitted.MatchString(line) {
			continue
		}
		place := located.FindStringSubmatch(line)
		require.Len(t, place, 3, "%s", line)
		i, err := strconv.Atoi(place[1])
		require.NoError(t, err)
		t.Errorf("a snippet of %s: %s:\n%s", all[i].file, place[2], all[i].code)
	}
}

// located matches an error with the number of its snippet.
var located = regexp.MustCompile(`/(\d+)\.go:\d+:\d+: (.*)$`)

// variables has the types of variables that many snippets do not declare.
const variables = "var ctx context_.Context\nvar key, dir, tenantID, userID string\n"

// permitted matches errors of snippets that are fragments.
var permitted = regexp.MustCompile(`: (undefined: \w+|declared and not used: \w+|missing return)$`)

// snippets returns the Go code of the documents of the repository.
func snippets(t *testing.T) (all []snippet) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("../.."), ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != "." || file == "tools"):
			return fs.SkipDir
		case strings.HasSuffix(file, ".md"):
			text, err := os.ReadFile(filepath.Join("../..", file))
			for _, block := range fences.FindAllStringSubmatch(string(text), -1) {
				all = append(all, snippet{file, block[1]})
			}
			return err
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				return err
			}
			for _, block := range new(comment.Parser).Parse(f.Doc.Text()).Content {
				if code, ok := block.(*comment.Code); ok && looksLikeGo.MatchString(code.Text) {
					all = append(all, snippet{file, code.Text})
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

var (
	fences      = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	looksLikeGo = regexp.MustCompile(`:= |\bfunc |\bvar \w+ `)
)

// packages holds the import paths of each package name.
type packages map[string][]string

const module = "github.com/seed93082962/agenthost/"

func listPackages(t *testing.T) packages {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "std", "work")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	all := packages{}
	for line := range strings.Lines(string(out)) {
		name, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(address, "vendor/") || !strings.HasPrefix(address, module) && strings.Contains(address, "internal/") {
			continue
		}
		all[name] = append(all[name], address)
	}
	return all
}

// program returns a file with the code of a snippet and the imports that it needs.
func (p packages) program(s snippet) (string, error) {
	code := s.code
	for mark, text := range map[string]string{"{ ... }": "{ panic(0) }", "{...}": "{}", ": ...": ": nil"} {
		code = strings.ReplaceAll(code, mark, text)
	}
	code = regexp.MustCompile(`(?m)^\s*\.\.\..*$`).ReplaceAllString(code, "")
	body := "\nfunc _() error {\n" + code + "\npanic(0)\n}\n"
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, 0); err == nil {
		body = "\n" + code
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, 0)
	if err != nil {
		return "", err
	}
	text := "package p\n" + `import context_ "context"` + "\n"
	for _, name := range qualifiers(f) {
		if address := p.nearest(name, s.file); address != "" {
			text += "import " + name + ` "` + address + "\"\n"
		}
	}
	return text + variables + body, nil
}

// qualifiers returns the undeclared names before a dot and an exported name.
func qualifiers(f *ast.File) (names []string) {
	unresolved := map[*ast.Ident]bool{}
	for _, id := range f.Unresolved {
		unresolved[id] = true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.IsExported() {
			if id, ok := sel.X.(*ast.Ident); ok && unresolved[id] && !slices.Contains(names, id.Name) {
				names = append(names, id.Name)
			}
		}
		return true
	})
	return names
}

// nearest returns the package of a name that shares most of its path with a document.
func (p packages) nearest(name, file string) (best string) {
	most := -1
	for _, address := range p[name] {
		if above, _, ok := strings.Cut(address, "/internal/"); ok && !strings.HasPrefix(module+file, above+"/") {
			continue // the document cannot import it
		}
		common := 0
		own := strings.Split(path.Dir(file), "/")
		for i, part := range strings.Split(strings.TrimPrefix(address, module), "/") {
			if i >= len(own) || own[i] != part {
				break
			}
			common++
		}
		if strings.HasPrefix(address, module) {
			common++
		}
		if common > most || common == most && len(address) < len(best) {
			best = address
			most = common
		}
	}
	return best
}

// Commands of the documents have no option that curl 7.68 lacks. They have no long options at all.
func TestCommandsWorkWithOldCurl(t *testing.T) {
	commands := 0
	err := fs.WalkDir(os.DirFS("../.."), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"node_modules", "testdata", ".git", "tools"}, d.Name())) {
			return fs.SkipDir
		}
		if strings.HasSuffix(file, "_test.go") || !slices.Contains([]string{".go", ".md", ".yaml"}, path.Ext(file)) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join("../..", file))
		for _, command := range curls.FindAllString(string(text), -1) {
			commands++
			for _, option := range options.FindAllString(command, -1) {
				require.Contains(t, []string{"-N", "-d", "-H", "-X", "-F", "--data-binary"}, strings.TrimSpace(option), "%s: %s", file, command)
			}
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, commands, 5)
}

var (
	curls   = regexp.MustCompile(`(?m)(curl|\bcall) -.*$(\n .*-d .*$)?`)
	options = regexp.MustCompile(` --?[a-zA-Z][a-z-]*`)
)
