// Command approve runs an agent of a runtime, and asks about each call that needs an approval:
//
//	go run ./cmd/runtime &
//	go run ./examples/approve '/tool Bash {"command":"date > now"}'
//
// The run ends, and a later run of the session has the decisions. No connection is open between
// them: the decisions may follow days later, and from another program.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:3000", "the runtime")
	agent := flag.String("agent", "demo", "the agent to run")
	flag.Parse()
	c, err := client.New(client.Config{BaseURL: *url, APIKey: os.Getenv("AGENT_HTTP_API_KEY")})
	if err == nil {
		err = run(context.Background(), c, *agent, flag.Arg(0), os.Stdin)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, c *client.Client, agent, message string, stdin io.Reader) error {
	lines := bufio.NewScanner(stdin)
	req := wire.RunRequest{Message: message, Inputs: []string{"approval"}}
	for {
		res, err := c.Complete(ctx, agent, req)
		if err != nil {
			return err
		}
		if len(res.Pending) == 0 {
			fmt.Println(res.Text)
			return nil
		}
		req = wire.RunRequest{SessionID: &res.SessionID, Inputs: req.Inputs}
		for _, p := range res.Pending {
			fmt.Print("This call needs an approval:\n", visible(p.ToolName), "Why:\n", visible(p.Reason), "It runs:\n", visible(p.Executed), "Run it? (y/n) ")
			answer := wire.Answer{ID: p.ID, Decision: "reject"}
			if lines.Scan() && lines.Text() == "y" {
				answer.Decision = "approve"
			}
			req.Answers = append(req.Answers, answer)
		}
	}
}

// visible returns a text in which what a terminal does not show as itself has its number, such as
// control and bidirectional characters: a model wrote it.
func visible(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("  ")
		for _, r := range strings.TrimSuffix(line, "\n") {
			if strconv.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && r != '\u2800' {
				out.WriteRune(r)
			} else {
				fmt.Fprintf(&out, "<U+%04X>", r)
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}
