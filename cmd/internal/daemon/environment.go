package daemon

import (
	"fmt"

	"github.com/caarlos0/env/v11"
)

// ReadEnvironment sets the fields of settings, a pointer to a struct with env tags. An empty
// variable has the effect of an unset one.
func ReadEnvironment(getenv func(string) string, settings any) error {
	names, err := env.GetFieldParams(settings)
	if err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	values := map[string]string{}
	for _, name := range names {
		if v := getenv(name.Key); v != "" {
			values[name.Key] = v
		}
	}
	if err := env.ParseWithOptions(settings, env.Options{Environment: values}); err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	return nil
}
