package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
)

// mutant is a change of a file: the text between two offsets is replaced.
type mutant struct {
	file     string
	at       place
	body     place // of the function, its first statement; zero outside of functions
	from, to int
	text     string // instead
	old      string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s becomes %s", filepath.Base(m.file), m.at.line, excerpt(m.old), excerpt(m.text))
}

// excerpt returns one line of at most 60 bytes.
func excerpt(text string) string {
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return strconv.Quote(text)
}

// swaps are the operators that replace others. One that does not compile is no mutant.
var swaps = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
	token.AND: "|", token.OR: "&", token.SHL: ">>", token.SHR: "<<", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=",
	token.INC: "--", token.DEC: "++", token.BREAK: "continue", token.CONTINUE: "break",
}

// mutantsOf returns the mutants of the files of a package without its tests.
func mutantsOf(dir string) (all []mutant, err error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	for _, name := range pkg.GoFiles {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c := collector{files: token.NewFileSet(), path: path, text: text}
		file, err := parser.ParseFile(c.files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			c.body = token.NoPos
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil && len(f.Body.List) > 0 {
				c.body = f.Body.List[0].Pos()
			}
			ast.Inspect(decl, c.visit)
		}
		all = append(all, c.mutants...)
	}
	return all, nil
}

// collector collects the mutants of one file.
type collector struct {
	files   *token.FileSet
	path    string
	text    []byte
	body    token.Pos // of the declaration that is visited: its first statement
	mutants []mutant
}

// add adds the replacement of the text between two positions.
func (c *collector) add(from, to token.Pos, text string) {
	begin, end := c.files.Position(from).Offset, c.files.Position(to).Offset
	c.mutants = append(c.mutants, mutant{
		file: c.path, at: c.place(from), body: c.place(c.body), from: begin, to: end, text: text, old: string(c.text[begin:end]),
	})
}

func (c *collector) place(at token.Pos) place {
	p := c.files.Position(at)
	return place{p.Line, p.Column}
}

// swap adds the replacement of an operator or a keyword.
func (c *collector) swap(at token.Pos, old token.Token) {
	if text := swaps[old]; text != "" {
		c.add(at, at+token.Pos(len(old.String())), text)
	}
}

func (c *collector) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR // a constant that no test reads is no behavior
	case *ast.BinaryExpr:
		c.swap(n.OpPos, n.Op)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			c.add(n.OpPos, n.X.Pos(), "")
		}
	case *ast.IfStmt:
		from, to := c.files.Position(n.Cond.Pos()).Offset, c.files.Position(n.Cond.End()).Offset
		c.add(n.Cond.Pos(), n.Cond.End(), "!("+string(c.text[from:to])+")")
	case *ast.BasicLit:
		if value, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
			c.add(n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
		}
	case *ast.ExprStmt:
		c.add(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		c.swap(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			c.add(n.Pos(), n.End(), "")
		}
	case *ast.IncDecStmt:
		c.swap(n.TokPos, n.Tok)
	case *ast.BranchStmt:
		if n.Label == nil {
			c.swap(n.TokPos, n.Tok)
		}
	case *ast.DeferStmt:
		c.add(n.Pos(), n.End(), "")
	}
	return true
}
