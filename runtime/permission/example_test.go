package permission_test

import (
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/runtime/permission"
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
		fmt.Println(command, "=>", p.Check("Bash", false, in) == nil)
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
	fmt.Println(reviewer.Offers("Read", true), reviewer.Offers("Write", false), reviewer.Offers("Bash", false))
	// Output: true false false
}
