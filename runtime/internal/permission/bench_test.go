package permission_test

import (
	"fmt"
	"testing"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

func BenchmarkCheckBash(b *testing.B) {
	p := policy(b, permission.ModeAuto, []string{"Bash(git *)", "Bash(npm run *)", "Read"},
		[]string{"Bash(rm *)", "Bash(git push *)"})
	in := input("command", `git add "src/a b.go" && git commit -m 'fix: a thing' && npm run test | git log`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Check(b.Context(), permission.Tool{Name: "Bash"}, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckRead(b *testing.B) {
	p := policy(b, permission.ModeDefault, nil, []string{"Read(.env)", "Read(/secrets/**)"})
	in := input("file_path", "/work/src/a.go")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Check(b.Context(), permission.Tool{Name: "Read", ReadOnly: true}, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHides(b *testing.B) {
	for _, rules := range [][]string{nil, {"Read(.env)", "Read(/secrets/**)"},
		{"Read(.env)", "Read(/secrets/**)", "Read(*.{pem,key})", "Read(**/private/*.json)"}} {
		p := policy(b, permission.ModeDefault, nil, rules)
		b.Run(fmt.Sprint(len(rules)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.Hides("src/very/deep/in/the/tree/file.go") {
					b.Fatal("hidden")
				}
			}
		})
	}
}
