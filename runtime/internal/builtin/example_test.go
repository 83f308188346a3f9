package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func ExampleTools() {
	dir, err := filesafe.Open("testdata/work")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dir.Close() }()
	tools := builtin.Tools(builtin.Config{Dir: dir})
	for _, one := range tools {
		fmt.Println(one.Spec().Name, one.Spec().ReadOnly)
		if one.Spec().Name != "Read" {
			continue
		}
		res, err := one.Call(context.Background(), tool.Call{ID: "t1", Input: json.RawMessage(`{"file_path":"list.txt"}`)})
		fmt.Print(res.Output, err, "\n")
	}
	// Output:
	// Read true
	//      1	milk
	//      2	bread
	// <nil>
	// Write false
	// Edit false
	// Glob true
	// Grep true
	// Bash false
	// WebFetch false
	// TodoWrite true
}
