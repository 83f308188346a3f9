// Command openai calls a model through agenthost's adapter.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

func main() {
	client, err := openai.New(openai.Config{BaseURL: os.Args[1], APIKey: os.Args[2]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for part, err := range client.Stream(context.Background(), &model.Request{Model: os.Args[3], Messages: []model.Message{model.UserText(os.Args[4])}}) {
		fmt.Print(part.Text, err)
	}
}
