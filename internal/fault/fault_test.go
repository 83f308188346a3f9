package fault_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/fault"
)

// Every code that the hub and a runtime can send is in the list, and the list has no other.
func TestTheListHasTheCodesOfTheServers(t *testing.T) {
	t.Parallel()
	values := constants(t, "../runvalue/runvalue.go", func(name string, _ ast.Expr) bool { return true })
	ofRuns := constants(t, "../runvalue/runvalue.go", func(name string, _ ast.Expr) bool { return strings.HasPrefix(name, "ErrorType") })
	isCode := func(_ string, kind ast.Expr) bool { return kind != nil && typeName(kind) == "Code" }
	ofHub := map[string]string{}
	for _, file := range []string{"../../hub/wire/error.go", "../../hub/internal/code/code.go"} {
		for name, code := range constants(t, file, isCode) {
			ofHub[name] = code
		}
	}

	isCondition := func(name string, _ ast.Expr) bool { return strings.HasPrefix(name, "condition") }
	isExit := func(name string, _ ast.Expr) bool { return strings.HasPrefix(name, "exit") }
	want := map[string][]string{
		fault.Exit:       sorted(numbers(t, "../../cmd/agenthost/exit.go", isExit)),
		fault.Hub:        sorted(ofHub),
		fault.Deployment: sorted(constants(t, "../../hub/internal/deployment/condition.go", isCondition)),
		fault.Answer:     slices.Concat(sorted(ofRuns), codesOfEndings(t, ofHub)),
		fault.Runtime:    slices.Concat(messagesOfRuntime(t, values), messagesOfFiles(t)),
	}
	got := map[string][]string{}
	for _, f := range fault.Of("") {
		if f.Origin != fault.Command {
			got[f.Origin] = append(got[f.Origin], f.Code)
		}
	}

	require.Len(t, got, len(want))
	for origin, codes := range want {
		slices.Sort(codes)
		slices.Sort(got[origin])
		require.Equal(t, slices.Compact(codes), got[origin], origin)
	}
}

// The hub has no code but its constants.
func TestTheHubSendsOnlyDeclaredCodes(t *testing.T) {
	t.Parallel()
	for _, file := range sources(t, "../../hub", "error.go", "code.go") {
		ast.Inspect(parse(t, file), func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 && typeName(call.Fun) == "Code" {
				_, literal := call.Args[0].(*ast.BasicLit)
				require.False(t, literal, "%s has a code of its own", file)
			}

			return true
		})
	}
}

func TestEachFaultSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, f := range fault.Of("") {
		for _, text := range []string{f.Cause, f.Remedy} {
			require.NotEmpty(t, text, f.Code)
			require.False(t, strings.HasSuffix(text, "."), "%s: %s", f.Code, text)
		}

		require.NotEqual(t, f.Status == 0, f.Origin == fault.Hub || f.Origin == fault.Runtime, f.Code)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"last_admin":                         {"hub last_admin"},
		"LAST_ADMIN":                         {"hub last_admin"},
		"last_admin: This is the last one.":  {"hub last_admin"},
		"unavailable":                        {"hub unavailable", "answer unavailable"},
		"Invalid request: message is absent": {"runtime Invalid request"},
		"session busy":                       {"runtime Session busy"},
		"last":                               nil,
		"last_admins":                        nil,
		": ":                                 nil,
		"import notes: conflict: It changed": {"hub conflict", "answer conflict"},
		`no hub has the name "a b": agenthost hubs lists them`: {"agenthost no hub has the name NAME"},
	} {
		var got []string
		for _, f := range fault.Of(text) {
			got = append(got, f.Origin+" "+f.Code)
		}

		require.Equal(t, want, got, text)
	}
}

// ERRORS.md is made from the list: UPDATE=1 go test ./internal/fault writes it.
func TestDocument(t *testing.T) {
	t.Parallel()
	const file = "../../ERRORS.md"
	var out strings.Builder
	out.WriteString("# Errors\n\nWhat caused each error of the servers, and what to do. `agenthost explain CODE` prints one, and\n" +
		"`agenthost explain` the list. `UPDATE=1 go test ./internal/fault` makes this document from it.\n" +
		"PROVIDER, MODEL and AGENT are names, and other words of capital letters in an error are any text.\n")
	for _, section := range []struct{ origin, title string }{
		{fault.Hub, "Responses of the hub: `code`"},
		{fault.Answer, "Failed answers and runs: `code`, `error_type` and `errorType`"},
		{fault.Runtime, "Responses of a runtime: `error`"},
		{fault.Deployment, "Conditions of a deployment: `type`"},
		{fault.Command, "Errors of the command line"},
		{fault.Exit, "Exit codes of the command line"},
	} {
		statuses := section.origin == fault.Hub || section.origin == fault.Runtime
		head, line := "| Error | Cause | What to do |\n", "|---|---|---|\n"
		if statuses {
			head, line = "| Status | Error | Cause | What to do |\n", "|---|---|---|---|\n"
		}

		fmt.Fprintf(&out, "\n## %s\n\n%s%s", section.title, head, line)
		for _, f := range fault.Of("") {
			if f.Origin != section.origin {
				continue
			}

			if statuses {
				fmt.Fprintf(&out, "| %d ", f.Status)
			}

			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", f.Code, f.Cause, f.Remedy)
		}
	}

	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
	}

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(text), out.String(), "UPDATE=1 go test ./internal/fault writes it")
}

// codesOfEndings returns the codes with which the hub itself ends answers.
func codesOfEndings(t *testing.T, ofHub map[string]string) (codes []string) {
	t.Helper()
	for _, file := range sources(t, "../../hub/internal/chat/relay") {
		ast.Inspect(parse(t, file), func(n ast.Node) bool {
			if name, ok := n.(*ast.SelectorExpr); ok && (typeName(name.X) == "wire" || typeName(name.X) == "code") && ofHub[name.Sel.Name] != "" {
				codes = append(codes, ofHub[name.Sel.Name])
			}

			return true
		})
	}

	return slices.DeleteFunc(codes, func(code string) bool {
		return slices.Contains([]string{"not_found", "rate_limited", "agent_not_deployed"}, code) // there is no answer
	})
}

// messagesOfRuntime returns the errors of responses of a runtime without what follows a colon.
func messagesOfRuntime(t *testing.T, values map[string]string) (messages []string) {
	t.Helper()
	add := func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.BasicLit:
			messages = append(messages, literal(t, e))
		case *ast.BinaryExpr:
			messages = append(messages, strings.TrimSuffix(literal(t, e.X), ": "))
		case *ast.SelectorExpr:
			require.NotEmpty(t, values[e.Sel.Name], e.Sel.Name)
			messages = append(messages, values[e.Sel.Name])
		}
	}
	for _, file := range sources(t, "../../runtime") {
		if filepath.Dir(file) != filepath.Clean("../../runtime") {
			continue
		}

		ast.Inspect(parse(t, file), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if typeName(n.Fun) == "reject" && len(n.Args) == 2 {
					add(n.Args[1])
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok && n.Type != nil && typeName(n.Type) == "ErrorBody" && typeName(pair.Key) == "Error" {
						add(pair.Value)
					}
				}
			}

			return true
		})
	}

	require.Greater(t, len(messages), 15)
	return messages
}

// messagesOfFiles returns the errors of the files interface.
func messagesOfFiles(t *testing.T) (messages []string) {
	t.Helper()
	ast.Inspect(parse(t, "../../filesafe/handlers.go"), func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok && lit.Type != nil && typeName(lit.Type) == "refusal" {
			messages = append(messages, literal(t, lit.Elts[1]))
		}

		return true
	})
	require.Greater(t, len(messages), 5)
	return messages
}

// sources returns the files of the packages below a directory but tests and those with the names.
func sources(t *testing.T, dir string, except ...string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !slices.Contains(except, filepath.Base(path)) {
			files = append(files, path)
		}

		return err
	}))
	return files
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	return f
}

// constants returns the constants of a file whose value is a literal, by their names.
func constants(t *testing.T, file string, want func(name string, kind ast.Expr) bool) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, value := range values(t, file, token.STRING, want) {
		found[name] = literal(t, value)
	}

	require.NotEmpty(t, found)
	return found
}

// numbers is constants for numbers.
func numbers(t *testing.T, file string, want func(name string, kind ast.Expr) bool) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, value := range values(t, file, token.INT, want) {
		found[name] = value.Value
	}

	require.NotEmpty(t, found)
	return found
}

func values(t *testing.T, file string, kind token.Token, want func(name string, kind ast.Expr) bool) map[string]*ast.BasicLit {
	t.Helper()
	found := map[string]*ast.BasicLit{}
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !want(spec.Names[0].Name, spec.Type) {
			return true
		}

		if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == kind {
			found[spec.Names[0].Name] = value
		}

		return true
	})
	return found
}

// errorsOf returns the errors of a package that do not wrap another one, with a value in place of
// each verb. Those of a line of a file are not part of it: they begin with its name.
func errorsOf(t *testing.T, dir string) (texts []string) {
	t.Helper()
	values := strings.NewReplacer("%q", `"x"`, "%s", "x", "%v", "x", "%d", "1")
	for _, file := range sources(t, dir) {
		ast.Inspect(parse(t, file), func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !slices.Contains([]string{"New", "Errorf", "usage"}, typeName(call.Fun)) {
				return true
			}

			text, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				return true
			}

			format := literal(t, text)
			if !strings.Contains(format, "%w") && !strings.HasPrefix(format, "%s:") {
				texts = append(texts, values.Replace(format))
			}

			return true
		})
	}

	require.Greater(t, len(texts), 50)
	return texts
}

// Every error of the command line is in the list, and the list has no other.
func TestTheListHasTheErrorsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, text := range errorsOf(t, "../../cmd/agenthost") {
		found := slices.DeleteFunc(fault.Of(text), func(f fault.Fault) bool { return f.Origin != fault.Command })
		require.NotEmpty(t, found, text)
		for _, f := range found {
			met[f.Code] = true
		}
	}

	for _, f := range fault.Of("") {
		require.Equal(t, f.Origin == fault.Command, met[f.Code], f.Code)
	}
}

func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	text, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	require.NoError(t, err)
	return text
}

// typeName returns the name of a type or of another object without its package.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}

	return ""
}

func sorted(constants map[string]string) (values []string) {
	for _, value := range constants {
		values = append(values, value)
	}

	slices.Sort(values)
	return values
}

func TestText(t *testing.T) {
	t.Parallel()
	f, ok := fault.Find(fault.Hub, "name_taken")
	require.True(t, ok)
	require.Equal(t, http.StatusConflict, f.Status)
	require.Equal(t, "The name is taken: choose another.", f.Text())
	_, ok = fault.Find(fault.Answer, "name_taken")
	require.False(t, ok)
}
