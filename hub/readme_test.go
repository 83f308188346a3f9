package hub_test

import (
	"testing"

	"github.com/seed93082962/agenthost/internal/readmetest"
)

// TestTheReadmeNamesTestsThatExist holds the README to the tests: each rule has one, and it is there.
func TestTheReadmeNamesTestsThatExist(t *testing.T) { readmetest.Check(t, 150) }
