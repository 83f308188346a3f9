package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	main "github.com/seed93082962/agenthost/cmd/agenthost"
)

// The page of an agent has the first texts of connect.
func TestTheConsoleHasTheTextsOfConnect(t *testing.T) {
	t.Parallel()
	page := contents(t, "../../hub/internal/console/web/parts/connect.js")
	for _, one := range main.ConnectTexts[:3] {
		text := strings.NewReplacer("{{.URL}}", "${url}", "{{.Model}}", "${model}", "{{.Token}}", "CLI_TOKEN", `\`, `\\`)
		require.Contains(t, page, text.Replace(one.Text), one.Client)
	}
}
