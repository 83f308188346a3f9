package kubernetes_test

import (
	"testing"

	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }
