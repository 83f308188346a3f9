package main

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// orCall reports a call among the errors of cmp.Or. It is made also if an earlier error is not nil,
// and a reader takes the line for a choice.
var orCall = &analysis.Analyzer{
	Name: "orcall",
	Doc:  "report a call that is an operand of cmp.Or and returns an error",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, file := range pass.Files {
			ast.Inspect(file, func(n ast.Node) bool {
				or, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}

				f := typeutil.StaticCallee(pass.TypesInfo, or)
				if f == nil || f.FullName() != "cmp.Or" || !isError(pass.TypesInfo.TypeOf(or)) {
					return true
				}

				for _, operand := range or.Args {
					if call, ok := operand.(*ast.CallExpr); ok && !pass.TypesInfo.Types[call.Fun].IsType() {
						pass.ReportRangef(operand, "cmp.Or makes this call in any case: make it on a line of its own")
					}
				}

				return true
			})
		}

		return nil, nil
	},
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }
