package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mutant is a change of a package. Its edits compile both variants into the package, and a switch
// with its id chooses one of them when the tests run.
type mutant struct {
	id    int
	file  string // absolute
	line  int
	end   int // the last line
	name  string
	edits []edit
}

// edit replaces the text between two offsets of a file.
type edit struct {
	from, to int
	text     string
	order    int // of edits that begin at the same offset
}

// String returns the mutant with its line.
func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s", filepath.Base(m.file), m.line, m.name)
}

// source is a file of the package.
type source struct {
	path string
	text []byte
}

// loaded is a package that is changed.
type loaded struct {
	name    string
	dir     string
	sources []source
	mutants []mutant
}

// load returns the package of a directory, without its tests, with all its mutants.
func load(dir string, read func(path string) ([]byte, error)) (*loaded, error) {
	cfg := &packages.Config{Dir: dir, Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles |
		packages.NeedImports | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo}
	list, err := packages.Load(cfg, ".")
	if err != nil {
		return nil, err
	}

	if len(list) != 1 || len(list[0].Errors) > 0 {
		return nil, fmt.Errorf("load %s: %v", dir, list[0].Errors)
	}

	pkg := list[0]
	l := &loaded{name: pkg.Name, dir: filepath.Dir(pkg.CompiledGoFiles[0])}
	for i, file := range pkg.Syntax {
		text, err := read(pkg.CompiledGoFiles[i])
		if err != nil {
			return nil, err
		}

		l.sources = append(l.sources, source{pkg.CompiledGoFiles[i], text})
		c := &collector{pkg: pkg, file: file, path: pkg.CompiledGoFiles[i], text: text, next: len(l.mutants), names: map[string]int{}}
		for _, decl := range file.Decls {
			c.function = nameOf(decl)
			ast.PreorderStack(decl, nil, c.visit)
		}

		l.mutants = append(l.mutants, c.mutants...)
	}

	return l, nil
}

// nameOf returns the name of a function or method, or "var".
func nameOf(decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok {
		return "var"
	}

	if f.Recv == nil {
		return f.Name.Name
	}

	receiver, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
	return receiver + "." + f.Name.Name
}

// collector collects the mutants of one file.
type collector struct {
	pkg      *packages.Package
	file     *ast.File
	path     string
	text     []byte
	function string
	next     int // number of mutants of the files before
	order    int // of edits
	mutants  []mutant
	names    map[string]int // how often each is in the file
}

// add adds a mutant of a node, and returns its id as text.
func (c *collector) add(node ast.Node, what string) string {
	files := c.pkg.Fset
	id := c.next + len(c.mutants) + 1 // 0 is no mutant
	name := fmt.Sprintf("%s %s: %s in %s", filepath.Base(c.path), c.function, what, excerpt(c.source(node)))
	c.names[name]++
	if n := c.names[name]; n > 1 {
		name += fmt.Sprintf(" (%d)", n)
	}

	c.mutants = append(c.mutants, mutant{
		id: id, file: c.path, line: files.Position(node.Pos()).Line, end: files.Position(node.End()).Line, name: name,
	})
	return strconv.Itoa(id)
}

func (c *collector) source(node ast.Node) string {
	return string(c.text[c.offset(node.Pos()):c.offset(node.End())])
}

func (c *collector) offset(at token.Pos) int { return c.pkg.Fset.Position(at).Offset }

// replace adds an edit to the last mutant.
func (c *collector) replace(from, to token.Pos, text string) {
	c.order++
	m := &c.mutants[len(c.mutants)-1]
	m.edits = append(m.edits, edit{c.offset(from), c.offset(to), text, c.order})
}

// wrap adds text before and after a node to the last mutant. What wraps a node later is inside.
func (c *collector) wrap(node ast.Node, before, after string) {
	c.replace(node.Pos(), node.Pos(), before)
	c.replace(node.End(), node.End(), after)
	last := c.mutants[len(c.mutants)-1].edits
	last[len(last)-1].order *= -1
}

// typeOf returns the type of an expression as the file writes it, or false if it cannot name it.
func (c *collector) typeOf(e ast.Expr) (name string, info types.BasicInfo, ok bool) {
	t := c.pkg.TypesInfo.TypeOf(e)
	if t == nil {
		return "", 0, false
	}

	t, ok = types.Default(t), true
	name = types.TypeString(t, func(p *types.Package) string {
		if p == c.pkg.Types {
			return ""
		}

		for _, spec := range c.file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == p.Path() {
				if spec.Name != nil {
					return spec.Name.Name
				}

				return p.Name()
			}
		}

		ok = false
		return p.Name()
	})
	if basic, isBasic := t.Underlying().(*types.Basic); isBasic {
		info = basic.Info()
	}

	return name, info, ok
}

// operators are the functions of [switches] that replace an operator.
var operators = map[token.Token]struct {
	function, becomes string
	also              types.BasicInfo // operands, in addition to numbers
}{
	token.LSS: {"mutantLess", "<=", types.IsString}, token.LEQ: {"mutantLessEqual", "<", types.IsString},
	token.GTR: {"mutantGreater", ">=", types.IsString}, token.GEQ: {"mutantGreaterEqual", ">", types.IsString},
	token.ADD: {"mutantAdd", "-", 0}, token.SUB: {"mutantSub", "+", 0},
	token.MUL: {"mutantMul", "/", 0}, token.QUO: {"mutantQuo", "*", 0}, token.AND: {"mutantAnd", "|", 0},
	token.OR: {"mutantOr", "&", 0}, token.SHL: {"mutantShl", ">>", 0}, token.SHR: {"mutantShr", "<<", 0},
}

func becomes(old, changed string) string {
	return strconv.Quote(old) + " becomes " + strconv.Quote(changed)
}

func (c *collector) visit(node ast.Node, stack []ast.Node) bool {
	switch n := node.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR // a constant that no test reads is no behavior
	case *ast.BinaryExpr:
		c.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			c.wrap(n, "(mutantOn("+c.add(n, becomes("!", ""))+") != ", ")")
		}
	case *ast.IfStmt:
		if !negated(n.Cond) {
			c.wrap(n.Cond, "mutantOn("+c.add(n.Cond, "the condition is negated")+") != (", ")")
		}
	case *ast.BasicLit:
		if t, info, ok := c.typeOf(n); ok && n.Kind == token.INT && info&types.IsNumeric != 0 {
			c.wrap(n, "mutantInc["+t+"]("+c.add(n, "one more")+", ", ")")
		}
	case *ast.ExprStmt, *ast.DeferStmt, *ast.AssignStmt, *ast.IncDecStmt:
		c.statement(n.(ast.Stmt), stack)
	case *ast.BranchStmt:
		other := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}[n.Tok]
		if n.Label == nil && other != "" && slices.ContainsFunc(stack, isLoop) {
			c.wrap(n, "if mutantOn("+c.add(n, becomes(n.Tok.String(), other))+") { "+other+" } else { ", " }")
		}
	}

	return true
}

// negated reports whether the mutant of a condition negates it already.
func negated(e ast.Expr) bool {
	switch n := e.(type) {
	case *ast.BinaryExpr:
		return n.Op == token.EQL || n.Op == token.NEQ
	case *ast.UnaryExpr:
		return n.Op == token.NOT
	}

	return false
}

func isLoop(node ast.Node) bool {
	switch node.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		return true
	}

	return false
}

func (c *collector) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.EQL, token.NEQ:
		other := map[token.Token]string{token.EQL: "!=", token.NEQ: "=="}[n.Op]
		c.wrap(n, "((", ") != mutantOn("+c.add(n, becomes(n.Op.String(), other))+"))")
	case token.LAND, token.LOR:
		function, other := "mutantLogicalAnd", "||"
		if n.Op == token.LOR {
			function, other = "mutantLogicalOr", "&&"
		}

		c.wrap(n, function+"("+c.add(n, becomes(n.Op.String(), other))+", ", " })")
		c.replace(n.OpPos, n.OpPos+2, ",")
		c.replace(n.Y.Pos(), n.Y.Pos(), "func() bool { return ")
	default:
		op, known := operators[n.Op]
		operand := n.X
		if c.pkg.TypesInfo.Types[n].Value == nil && c.pkg.TypesInfo.Types[n.X].Value != nil && n.Op != token.SHL && n.Op != token.SHR {
			operand = n.Y
		}

		t, info, ok := c.typeOf(operand)
		if wanted := types.BasicInfo(types.IsNumeric); !known || !ok || info&(wanted|op.also) == 0 {
			return
		}

		c.wrap(n, op.function+"["+t+"]("+c.add(n, becomes(n.Op.String(), op.becomes))+", ", ")")
		c.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), ",")
	}
}

// statement adds the removal of a statement, and the other direction of a sum.
func (c *collector) statement(stmt ast.Stmt, stack []ast.Node) {
	before, after := "if !mutantOn(%s) { ", " }"
	switch parent := stack[len(stack)-1].(type) {
	case *ast.CommClause:
		if parent.Comm == stmt {
			return
		}
	case *ast.TypeSwitchStmt:
		return
	case *ast.BlockStmt, *ast.CaseClause, *ast.LabeledStmt:
	default: // a part of an if, a for or a switch
		before, after = "func() { "+before, after+" }()"
	}

	if n, ok := stmt.(*ast.IncDecStmt); ok {
		if t, _, ok := c.typeOf(n.X); ok {
			op, other := " += ", "--"
			if n.Tok == token.DEC {
				op, other = " -= ", "++"
			}

			id := c.add(n, becomes(n.Tok.String(), other))
			c.replace(n.TokPos, n.End(), op+"mutantNegate["+t+"]("+id+", 1)")
		}

		return
	}

	n, isAssign := stmt.(*ast.AssignStmt)
	if isAssign && n.Tok == token.DEFINE {
		return
	}

	c.wrap(stmt, fmt.Sprintf(before, c.add(stmt, "removal")), after)
	if !isAssign {
		return
	}

	t, info, ok := c.typeOf(n.Lhs[0])
	other := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}[n.Tok]
	if ok && other != "" && info&types.IsNumeric != 0 {
		c.wrap(n.Rhs[0], "mutantNegate["+t+"]("+c.add(n, becomes(n.Tok.String(), other))+", ", ")")
	}
}

// excerpt returns one line of at most 60 bytes.
func excerpt(text string) string {
	if len(text) > 60 {
		text = text[:60] + "..."
	}

	return strconv.Quote(strings.Join(strings.Fields(text), " "))
}

// apply returns a text with edits. Of those at the same offset, text that closes is first.
func apply(text []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.order, b.order)) })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, text[at:e.from]...), e.text...)
		at = e.to
	}

	return append(out, text[at:]...)
}
