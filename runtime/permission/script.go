package permission

import (
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

// longestScript bounds the bytes of a command that is read: the parser's stack grows with the
// nesting of what it reads.
const longestScript = 64 << 10

// script is what can be told of a shell command before it runs.
type script struct {
	text     string
	commands []command
	inputs   []word // files that are redirected from
	unclear  bool   // it may run something that is not in commands, or write where nobody sees it
	plain    bool   // simple commands alone, joined by pipes, "&&", "||" and ";"
}

// command is a simple command, at least a name, which is known.
type command []word

// readScript reads a command as bash does.
func readScript(text string) *script {
	s := &script{text: text, plain: true}
	if len(text) > longestScript || strings.ContainsFunc(text, misread) {
		s.unclear = true
		return s
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		s.unclear = true
		return s
	}
	s.statements(file.Stmts)
	return s
}

// misread says of a character whether parsers may disagree on it: bash takes a carriage return as part of a word, and
// which of the wide spaces are spaces depends on the system.
func misread(c rune) bool {
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
		s.plain = false
	}
	if st.Coprocess || st.Disown {
		s.unclear = true
	}
	for _, r := range st.Redirs {
		s.redirect(r)
	}
	switch cmd := st.Cmd.(type) {
	case nil: // redirections alone
		s.plain = false
		return
	case *syntax.CallExpr:
		s.call(cmd)
		return
	case *syntax.BinaryCmd:
		s.statement(cmd.X)
		s.statement(cmd.Y)
		return
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
		s.word(cmd.Word)
		for _, item := range cmd.Items {
			s.words(item.Patterns)
			s.statements(item.Stmts)
		}
	default: // functions, declarations, arithmetic, [[, coprocesses
		s.unclear = true
	}
	s.plain = false
}

func (s *script) loop(loop *syntax.ForClause) {
	over, ok := loop.Loop.(*syntax.WordIter)
	// Variables that change what commands do (PATH, IFS, LD_PRELOAD) are not written like this.
	if !ok || loop.Select || strings.ContainsFunc(over.Name.Value, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		s.unclear = true
		return
	}
	s.words(over.Items)
	s.statements(loop.Do)
}

func (s *script) call(call *syntax.CallExpr) {
	if len(call.Assigns) > 0 || len(call.Args) == 0 {
		s.unclear = true
		return
	}
	cmd := command(s.words(call.Args))
	// What begins with "-" is no command, but what one parser takes for it ("time -- rm").
	if name := cmd[0]; name.open || name.text == "" || name.text[0] == '-' || strings.ContainsAny(name.text, " \t\n") || cmd.runsAnother() {
		s.unclear = true
		return
	}
	s.commands = append(s.commands, cmd)
}

const null = "/dev/null"

func (s *script) redirect(r *syntax.Redirect) {
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" { // {name}> sets a variable
		s.unclear = true
		return
	}
	to := s.word(r.Word)
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		s.unclear = s.unclear || to.open || to.text != null
	case syntax.DplOut, syntax.DplIn:
		s.unclear = s.unclear || to.open || to.text != "-" && (to.text == "" || strings.Trim(to.text, "0123456789") != "")
	case syntax.RdrIn: // bash opens connections for /dev/tcp/...
		if to.open || to.text != null && strings.HasPrefix(to.text, "/dev/") {
			s.unclear = true
		} else if to.text != null {
			s.inputs = append(s.inputs, to)
		}
	case syntax.Hdoc, syntax.DashHdoc:
		s.plain = false
		s.unclear = s.unclear || !plainEnd(r.Word) || strings.Contains(s.text, "\\\n") // where it ends would be open to doubt
		s.word(r.Hdoc)
	case syntax.WordHdoc:
		s.plain = s.plain && !to.open
	default:
		s.unclear = true
	}
}

// plainEnd says whether the word that ends a here-document is one that everybody reads alike.
func plainEnd(w *syntax.Word) bool {
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
