package openai_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

func Example() {
	// Replaces https://api.openai.com/v1.
	srv := httptest.NewServer(modeltest.New(modeltest.OpenAI,
		modeltest.Stream(modeltest.Text("Good ", "morning.")),
	))
	defer srv.Close()

	client, err := openai.New(openai.Config{HTTPClient: srv.Client(), BaseURL: srv.URL + "/v1", APIKey: "sk-..."})
	if err != nil {
		fmt.Println(err)
		return
	}

	request := &model.Request{Model: "gpt-4.1", Messages: []model.Message{model.UserText("Good morning.")}}
	for part, err := range client.Stream(context.Background(), request) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch part.Kind {
		case model.KindText:
			fmt.Printf("%q\n", part.Text)
		case model.KindStop:
			fmt.Println(part.StopReason)
		}
	}
	// Output:
	// "Good "
	// "morning."
	// end_turn
}
