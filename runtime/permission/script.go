package permission

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// A policy reads only commands within these limits. The parser is recursive: it needs up to 8 KiB
// of stack for each character that opens a nested construct.
const (
	maxScript = 64 << 10 // bytes
	maxOpen   = 4096     // parentheses, brackets and braces that open
)

// script is a Bash command in its canonical form.
type script struct {
	text     string    // the printed form, which bash executes
	readable bool      // text is set
	commands []command // the simple commands
	lists    [][]word  // all words, for deny patterns: a list for each command, loop and case
	inputs   []word    // files that input is redirected from
	opaque   bool      // bash may run a command that is not in commands, or write to a file
	flat     bool      // only simple commands, joined by pipes, "&&", "||" and ";"
}

// command is a simple command. The first word is its name, which is known.
type command []word

// readScript reads a Bash command.
//
// The parser and bash may disagree about an unusual text, for example about a backslash at the end
// of a comment. Therefore the text is printed in a plain form, without comments and line
// continuations, and the tree of that form is judged. Bash executes the same form. If the form is
// not stable, the command is unreadable.
func readScript(text string) *script {
	printed, _, ok := printScript(text)
	if !ok {
		return &script{opaque: true}
	}
	again, file, ok := printScript(printed)
	if !ok || again != printed || continued(printed, file) {
		return &script{opaque: true}
	}
	s := &script{text: printed, readable: true, flat: true}
	s.statements(file.Stmts)
	return s
}

// printScript parses a text and prints the tree.
func printScript(text string) (string, *syntax.File, bool) {
	if len(text) > maxScript || strings.ContainsFunc(text, ambiguous) ||
		strings.Count(text, "(")+strings.Count(text, "[")+strings.Count(text, "{") > maxOpen {
		return "", nil, false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil || hasNestedDocument(file) {
		return "", nil, false
	}
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, file); err != nil {
		return "", nil, false
	}
	printed := b.String()
	if line, ok := strings.CutSuffix(printed, "\n"); ok && !strings.Contains(line, "\n") {
		printed = line
	}
	return printed, file, true
}

// continued reports whether a printed form contains a line continuation. Bash removes it before it
// searches for the end of a here-document, the parser does not.
func continued(printed string, file *syntax.File) bool {
	ends := continuation.FindAllStringIndex(printed, -1)
	if ends == nil {
		return false
	}
	literal := func(from, to syntax.Pos) { // the text in quotes contains no line continuation
		ends = slices.DeleteFunc(ends, func(at []int) bool {
			return int(from.Offset()) < at[1] && at[1] <= int(to.Offset()) //nolint:gosec // at most maxScript
		})
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.SglQuoted:
			literal(n.Pos(), n.End())
		case *syntax.Redirect:
			if _, unquoted := n.Word.Parts[0].(*syntax.Lit); n.Hdoc != nil && !unquoted {
				literal(n.Hdoc.Pos(), n.Hdoc.End())
			}
		}
		return true
	})
	return len(ends) > 0
}

var continuation = regexp.MustCompile(`(^|[^\\])(\\\\)*\\\n`)

// hasNestedDocument reports whether a substitution contains a here-document. On a single line, its
// text would follow the end of the substitution, where bash warns or executes it.
func hasNestedDocument(file *syntax.File) bool {
	found, nesting := false, []bool{false} // whether each node on the path is in a substitution
	syntax.Walk(file, func(node syntax.Node) bool {
		inside := nesting[len(nesting)-1]
		switch n := node.(type) {
		case nil:
			nesting = nesting[:len(nesting)-1]
			return true
		case *syntax.CmdSubst, *syntax.ProcSubst:
			inside = true
		case *syntax.Redirect:
			found = found || inside && n.Hdoc != nil
		}
		nesting = append(nesting, inside)
		return true
	})
	return found
}

// ambiguous reports whether shells may disagree about a character. Bash takes a carriage return as
// part of a word, and the system's locale decides which of the wide spaces separate words.
func ambiguous(c rune) bool {
	return c != '\n' && c != '\t' && unicode.IsControl(c) || c > unicode.MaxASCII && unicode.IsSpace(c)
}

func (s *script) statements(list []*syntax.Stmt) {
	for _, st := range list {
		s.statement(st)
	}
}

func (s *script) statement(st *syntax.Stmt) {
	if st == nil {
		return
	}
	if st.Negated || st.Background {
		s.flat = false
	}
	if st.Coprocess || st.Disown {
		s.opaque = true
	}
	var redirected []word
	for _, r := range st.Redirs {
		redirected = append(redirected, s.redirect(r)...)
	}
	if call, ok := st.Cmd.(*syntax.CallExpr); ok {
		s.call(call, redirected)
		return
	}
	s.list(redirected)
	switch cmd := st.Cmd.(type) {
	case *syntax.BinaryCmd:
		s.statement(cmd.X)
		s.statement(cmd.Y)
		return
	case nil: // only redirections
	case *syntax.Block:
		s.statements(cmd.Stmts)
	case *syntax.Subshell:
		s.statements(cmd.Stmts)
	case *syntax.TimeClause:
		s.statement(cmd.Stmt)
	case *syntax.IfClause:
		for c := cmd; c != nil; c = c.Else {
			s.statements(c.Cond)
			s.statements(c.Then)
		}
	case *syntax.WhileClause:
		s.statements(cmd.Cond)
		s.statements(cmd.Do)
	case *syntax.ForClause:
		s.loop(cmd)
	case *syntax.CaseClause:
		s.list([]word{s.word(cmd.Word)})
		for _, item := range cmd.Items {
			s.list(s.words(item.Patterns))
			s.statements(item.Stmts)
		}
	default: // functions, declarations, arithmetic, [[, coprocesses
		s.opaque = true
	}
	s.flat = false
}

// list adds words that are not part of a simple command but may become part of one.
func (s *script) list(words []word) {
	if len(words) > 0 {
		s.lists = append(s.lists, words)
	}
}

func (s *script) loop(loop *syntax.ForClause) {
	over, ok := loop.Loop.(*syntax.WordIter)
	// Names of variables that affect commands, such as PATH and IFS, have no lower case letters.
	lower := func(c rune) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
	if !ok || loop.Select || strings.ContainsFunc(over.Name.Value, func(c rune) bool { return !lower(c) }) {
		s.opaque = true
		return
	}
	s.list(s.words(over.Items))
	s.statements(loop.Do)
}

func (s *script) call(call *syntax.CallExpr, redirected []word) {
	if len(call.Assigns) > 0 || len(call.Args) == 0 {
		s.opaque = true
		return
	}
	cmd := command(s.words(call.Args))
	// The parser takes "--" in "time -- rm" for the name of a command. No command begins with "-".
	if name := cmd[0]; name.open || name.text == "" || name.text[0] == '-' ||
		strings.ContainsAny(name.text, " \t\n") || cmd.interprets() {
		s.opaque = true
		return
	}
	s.commands = append(s.commands, cmd)
	s.list(append(slices.Clip(cmd), redirected...))
}

const devNull = "/dev/null"

// redirect returns the words of a redirection: the file or the text.
func (s *script) redirect(r *syntax.Redirect) []word {
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" { // {name}> sets a variable
		s.opaque = true
		return nil
	}
	to := s.word(r.Word)
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		s.opaque = s.opaque || to.open || to.text != devNull
	case syntax.DplOut, syntax.DplIn:
		number := to.text != "" && strings.Trim(to.text, "0123456789") == ""
		s.opaque = s.opaque || to.open || to.text != "-" && !number
	case syntax.RdrIn: // bash opens connections for /dev/tcp/...
		if to.open || to.text != devNull && strings.HasPrefix(to.text, "/dev/") {
			s.opaque = true
		} else if to.text != devNull {
			s.inputs = append(s.inputs, to)
		}
	case syntax.Hdoc, syntax.DashHdoc:
		s.flat = false
		s.opaque = s.opaque || !plainDelimiter(r.Word)
		return []word{s.body(r.Hdoc)}
	case syntax.WordHdoc:
		s.flat = s.flat && !to.open
	default:
		s.opaque = true
	}
	return []word{to}
}

// plainDelimiter reports whether the word that ends a here-document is unambiguous.
func plainDelimiter(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	var text string
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		text = part.Value
	case *syntax.SglQuoted:
		if text = part.Value; part.Dollar {
			return false
		}
	case *syntax.DblQuoted:
		if len(part.Parts) == 0 {
			return false
		}
		if lit, ok := part.Parts[0].(*syntax.Lit); ok && len(part.Parts) == 1 && !part.Dollar {
			text = lit.Value
		}
	}
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_'
	})
}
