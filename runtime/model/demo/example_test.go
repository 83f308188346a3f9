package demo_test

import (
	"context"
	"fmt"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/demo"
)

func ExampleNew() {
	m := demo.New(0)
	req := &model.Request{
		Messages: []model.Message{model.UserText(`/tool Read {"file_path": "a.txt"}`)},
		Tools:    []model.Tool{{Name: "Read"}},
	}
	for p, err := range m.Stream(context.Background(), req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch p.Kind {
		case model.KindText, model.KindToolInput:
			fmt.Printf("%q\n", p.Text)
		case model.KindToolUse:
			fmt.Println("tool:", p.Name)
		case model.KindStop:
			fmt.Println("stop:", p.StopReason)
		}
	}
	// Output:
	// "I"
	// " call"
	// " the"
	// " tool"
	// " Read."
	// tool: Read
	// "{\"file_path\""
	// ":\"a.txt\"}"
	// stop: tool_use
}
