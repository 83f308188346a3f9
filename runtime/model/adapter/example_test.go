package adapter_test

import (
	"fmt"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/adapter"
)

func ExampleNew() {
	_, err := adapter.New(agent.Provider{
		Protocol: agent.ProtocolOpenAI, BaseURL: "https://llm.example.com/v1", APIKey: "sk-1", Headers: map[string]agent.Secret{"Host": "x"},
	}, nil)
	fmt.Println(err)
	// Output: openai: header Host cannot be set
}
