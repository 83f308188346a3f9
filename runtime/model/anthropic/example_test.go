package anthropic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

func Example() {
	// Replaces https://api.anthropic.com.
	srv := httptest.NewServer(modeltest.New(modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("Good ", "morning.")),
	))
	defer srv.Close()

	client, err := anthropic.New(anthropic.Config{HTTPClient: srv.Client(), BaseURL: srv.URL, APIKey: "sk-ant-..."})
	if err != nil {
		fmt.Println(err)
		return
	}

	request := &model.Request{Model: "claude-sonnet-4-5", Messages: []model.Message{model.UserText("Good morning.")}}
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

func Example_error() {
	srv := httptest.NewServer(modeltest.New(modeltest.Anthropic, modeltest.Status(429, "Retry-After", "7")))
	defer srv.Close()

	client, err := anthropic.New(anthropic.Config{HTTPClient: srv.Client(), BaseURL: srv.URL, APIKey: "sk-ant-..."})
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = new(collect.Collector).Collect(client.Stream(context.Background(), &model.Request{
		Model: "claude-sonnet-4-5", Messages: []model.Message{model.UserText("Hello.")},
	}))
	if failure := new(model.Error); errors.As(err, &failure) {
		fmt.Println(failure.Code, failure.RetryAfter)
	}
	// Output: rate_limit 7s
}
