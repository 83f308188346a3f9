package hubcmd

import (
	"fmt"
	"strconv"

	"github.com/seed93082962/agenthost/hub/usage"
)

// requests returns a number of requests within a minute, 0 for the default, or -1 for no limit.
func requests(name, value string) (int, error) {
	if value == "none" {
		return -1, nil
	}
	n, err := answers(name, value)
	if err != nil {
		err = fmt.Errorf("%w, or none", err)
	}
	return n, err
}

// answers returns a number of answers at once, or 0 for the default.
func answers(name, value string) (int, error) {
	if value == "" {
		return 0, nil
	}
	const most = 100_000
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s: %q is not a number from 1 to %d", name, value, most)
	}
	return n, nil
}

// prices returns the prices of models, or nil for the default.
func prices(name, value string) (map[string]usage.Price, error) {
	if value == "" {
		return nil, nil
	}
	parsed, err := usage.ParsePrices(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return parsed, nil
}
