package hubcmd_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
)

func TestTableOfSettings(t *testing.T) {
	daemontest.Document(t, "../../hub/README.md", &hubcmd.Settings{})
}

// A new variable is a decision: most settings are keys of the file only.
func TestFewVariables(t *testing.T) {
	variables := 0
	for field := range reflect.TypeOf(hubcmd.Settings{}).Fields() {
		if name := field.Tag.Get("env"); name != "" && name == strings.ToUpper(name) {
			variables++
		}
	}
	require.LessOrEqual(t, variables, 50)
}
