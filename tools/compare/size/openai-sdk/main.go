// Command openai-sdk calls a model through OpenAI's SDK.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	client := openai.NewClient(option.WithBaseURL(os.Args[1]), option.WithAPIKey(os.Args[2]))
	stream := client.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model:    os.Args[3],
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(os.Args[4])},
	})
	for stream.Next() {
		if chunk := stream.Current(); len(chunk.Choices) > 0 {
			fmt.Print(chunk.Choices[0].Delta.Content)
		}
	}
	fmt.Println(stream.Err())
}
