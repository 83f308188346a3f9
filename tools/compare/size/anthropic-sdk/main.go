// Command anthropic-sdk calls a model through Anthropic's SDK.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func main() {
	client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(os.Args[1]), option.WithAPIKey(os.Args[2]))
	stream := client.Messages.NewStreaming(context.Background(), anthropic.MessageNewParams{
		Model: os.Args[3], MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(os.Args[4]))},
	})
	for stream.Next() {
		fmt.Print(stream.Current().Delta.Text)
	}
	fmt.Println(stream.Err())
}
