package shell_test

import (
	"fmt"

	"github.com/seed93082962/agenthost/runtime/internal/permission/shell"
)

func ExampleRead() {
	for _, text := range []string{"git log -n 3 | head", "wc -l *.go 2>/dev/null", "echo $HOME"} {
		script, err := shell.Read(text)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(script)
	}
	// Output:
	// ('exec' -- 'git' 'log' '-n' '3') | ('exec' -- 'head')
	// 'exec' -- 'wc' '-l' *'.go' 2>'/dev/null'
	// error: an expansion that begins with $: write the value itself, or put a $ that is text in single quotes
}
