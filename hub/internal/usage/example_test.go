package usage_test

import (
	"fmt"

	"github.com/seed93082962/agenthost/hub/internal/usage"
)

func ExampleParsePrices() {
	prices, err := usage.ParsePrices(`{"my-model": {"input": 1, "output": 4}}`)
	fmt.Println(prices["my-model"].Output, err)
	// Output: 4 <nil>
}
