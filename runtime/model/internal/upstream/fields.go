package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
)

// WithFields returns settings, with further fields that replace those of the same name. A null
// removes a field. The order of the fields is the same for each call, so that prompt caches match.
func WithFields(settings any, fields map[string]json.RawMessage) (any, error) {
	if len(fields) == 0 {
		return settings, nil
	}
	data, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("encode model request: %w", err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("encode model request: %w", err)
	}
	maps.Copy(all, fields)
	maps.DeleteFunc(all, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return all, nil
}
