package client_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/internal/openapitest"
)

// Requests have exactly the fields of their schemas. The fields of responses are those that
// TestEveryRoute decodes.
func TestRequestsHaveEveryField(t *testing.T) {
	t.Parallel()
	doc, err := openapitest.Load(openapitest.Config{File: "../openapi.yaml", Streams: []string{"text/event-stream"}})
	require.NoError(t, err)
	for name, request := range map[string]any{
		"MCPRequest": client.MCPRequest{}, "MCPUpdate": client.MCPRequest{},
	} {
		schema := doc.Schema(name)
		require.NotNil(t, schema, name)
		require.ElementsMatch(t, slices.Collect(maps.Keys(schema.Properties)), fieldsOf(reflect.TypeOf(request)), name)
	}
}

func fieldsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
