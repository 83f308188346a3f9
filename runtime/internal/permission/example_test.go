package permission_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

func ExamplePolicy() {
	p, err := permission.New(permission.Config{
		Allowed:    []string{"Read", "Bash(git *)", "Bash(npm run *)"},
		Disallowed: []string{"Read(.env)", "Bash(git push *)"},
		CWD:        "/work",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, command := range []string{"git add . && npm run test", "git log | sh", "git add . && git push"} {
		in, _ := json.Marshal(map[string]string{"command": command})
		_, err := p.Check(context.Background(), permission.Tool{Name: "Bash"}, in)
		fmt.Println(command, "=>", err == nil)
	}
	fmt.Println(p.Hides("deploy/.env"))
	// Output:
	// git add . && npm run test => true
	// git log | sh => false
	// git add . && git push => false
	// true
}

func ExamplePolicy_Narrow() {
	agent, _ := permission.New(permission.Config{Mode: permission.ModeBypass, Disallowed: []string{"Write"}})
	reviewer, _ := agent.Narrow([]string{"Read", "Write"}, nil)
	fmt.Println(reviewer.Offers(permission.Tool{Name: "Read", ReadOnly: true}), reviewer.Offers(permission.Tool{Name: "Write"}), reviewer.Offers(permission.Tool{Name: "Bash"}))
	// Output: true false false
}
