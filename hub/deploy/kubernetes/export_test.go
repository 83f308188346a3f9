package kubernetes

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Objects returns the objects of a revision as they are sent to the API server.
func (d *Driver) Objects(ref deploy.Ref, revision int64, req deploy.Request, started time.Time) (all []*unstructured.Unstructured, err error) {
	m := d.manifest(ref, revision, "the-uid")
	for _, f := range []func() (*unstructured.Unstructured, error){
		func() (*unstructured.Unstructured, error) {
			return m.deployment(d.cfg.replicas(req.Deployment), req, started)
		},
		func() (*unstructured.Unstructured, error) { return m.secret(req) }, m.service, m.policy,
		func() (*unstructured.Unstructured, error) { return m.volumeClaim(), nil },
	} {
		o, err := f()
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}
