//go:build unix

package child_test

import (
	"bytes"
	"fmt"
	"os/exec"

	"github.com/seed93082962/agenthost/internal/child"
)

func ExampleStart() {
	env := []string{"PATH=/usr/bin:/bin"}
	sh, err := child.LookPath("sh", env)
	if err != nil {
		fmt.Println(err)
		return
	}
	var output bytes.Buffer
	p, err := child.Start(&exec.Cmd{Path: sh, Args: []string{"sh", "-c", "sleep 60 & echo started"}, Env: env, Stdout: &output})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-p.Done() // the sleep has been killed
	fmt.Print(output.String())
	// Output: started
}
