package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The commands of the document lead from a new hub to an answer, in one shell without changes
// apart from the address.
func TestCommandsOfTheReadme(t *testing.T) {
	t.Parallel()
	in := spawn(t, binary(t), []string{"HUB_DATA_DIR", t.TempDir()})
	printed := in.Await(t, in.Stdout, regexp.MustCompile(`(?s)  (curl .*?setup_token": "[^"]+"}')`))[1]
	out, err := exec.CommandContext(t.Context(), "bash", "-c", strings.Replace(printed, `"..."`, `"`+password+`"`, 1)).Output()
	require.NoError(t, err, "%s", printed)
	token := regexp.MustCompile(`"access_token":"([^"]+)"`).FindStringSubmatch(string(out))
	require.Len(t, token, 2, "%s", out)
	text, err := os.ReadFile("../../hub/README.md")
	require.NoError(t, err)
	block := regexp.MustCompile(`(?ms)^api=.*?^call.*?^` + "```").FindString(string(text))
	script := strings.TrimSuffix(strings.ReplaceAll(block, "http://127.0.0.1:8080", in.URL), "```")
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script+"\ncall -X DELETE $api/admin/agents/helper/deploy\ncall -X DELETE $api/admin/agents/helper")
	cmd.Env = append(os.Environ(), "token="+token[1])
	out, err = cmd.Output()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Hello!")
	require.Contains(t, string(out), "event: done")
	require.NotContains(t, string(out), `"code":"`)
}
