package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var initialized = regexp.MustCompile(`(?m)^init (github\.com/seed93082962/agenthost/\S+) .* (\d+) bytes, \d+ allocs$`)

// What an agent does not use is not initialized: before main, the packages of the runtime allocate
// little.
func TestInitializationIsSmall(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	total := 0
	var largest []string
	for _, m := range initialized.FindAllStringSubmatch(string(output), -1) {
		if strings.Contains(m[1], "test") { // a package that only tests import
			continue
		}
		bytes, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		total += bytes
		largest = append(largest, m[0])
	}
	require.NotEmpty(t, largest)
	require.Less(t, total, 200<<10, strings.Join(largest, "\n"))
}
