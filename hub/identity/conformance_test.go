package identity_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/readmetest"
)

// TestConformanceNamesTestsThatExist checks that every rule of CONFORMANCE.md names an existing
// test.
func TestConformanceNamesTestsThatExist(t *testing.T) {
	readmetest.Check(t, 40)
	text, err := os.ReadFile("CONFORMANCE.md")
	require.NoError(t, err)
	var numbers []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d\.\d\.\d) `).FindAllStringSubmatch(string(text), -1) {
		numbers = append(numbers, row[1])
	}
	require.Equal(t, strings.Fields(`7.1.1 7.1.2 7.1.3 7.2.1 7.2.2 7.2.3 7.2.4 7.3.1 7.3.2 7.4.1 7.4.2 7.4.3 7.4.4 7.4.5
		7.5.1 7.5.2 7.5.3 9.1.1 9.1.2 9.1.3 9.2.1 9.2.2 9.2.3 9.2.4`), numbers, "all requirements of these chapters, in their order")
}
