package catalog_test

import (
	"testing"

	"github.com/seed93082962/agenthost/internal/readmetest"
)

func TestConformanceNamesTestsThatExist(t *testing.T) { readmetest.Check(t, 15) }
