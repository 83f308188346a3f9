package kubernetes_test

import (
	"testing"

	"github.com/seed93082962/agenthost/tools/kubernetes/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }
