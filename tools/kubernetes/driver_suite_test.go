package kubernetes_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// names numbers the deployments of the suite.
var names atomic.Int64

func TestDriver(t *testing.T) {
	p := newPlace(t)
	deploytest.Suite(t, func(t *testing.T) deploytest.Harness {
		p.explain(t)
		return deploytest.Harness{
			Name:   fmt.Sprint("-", names.Add(1)),
			Listen: listen,
			Driver: func(t *testing.T) deploy.Driver { return p.open(t) },
			Kill:   func(t *testing.T, ref deploy.Ref, revision int64) { p.kill(ref.Key, revision) },
		}
	})
}
