package kubernetes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Apply creates the objects of a revision, or makes them those of the request again, and then
// starts its pods. If former pods of the revision end, it waits for
// that.
func (d *Driver) Apply(ctx context.Context, ref deploy.Ref, number int64, req deploy.Request) error {
	if err := errors.Join(checkEnv(req), d.CheckDeployment(req.Deployment)); err != nil {
		return err
	}

	if _, err := d.manifest(ref, number, "").secret(req); err != nil { // before anything is written
		return err
	}

	drift, name := "", revisionName(ref, number)
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		r, _ := f.revision(number)
		phase := r.phase()
		switch {
		case phase == deploy.Running:
			return nil
		case phase == deploy.Stopping:
			return d.terminate(ctx, ref, r, 0)
		case drift == "" && (phase == deploy.Changed || r.app == nil && d.repairs.started(name)):
			drift = r.drift()
			if err := d.repairs.check(name, drift); err != nil {
				return err
			}
		}

		if r.app == nil {
			return d.prepare(ctx, ref, r, req)
		}

		if r.secret != nil && (r.secret.OwnerReferences == nil || r.secret.OwnerReferences[0].UID != r.app.UID) { // of a former Deployment
			if err := d.remove(ctx, secrets, r.secret, nil); err != nil {
				return err
			}

			return errChanged
		}

		if d.cfg.StorageSize != "" && f.data == nil {
			if err := d.apply(ctx, volumeClaims, d.manifest(ref, number, "").volumeClaim(), nil); err != nil {
				return err
			}
		} else if f.data != nil && f.data.DeletionTimestamp != nil {
			return nil // another hub deletes the deployment
		}

		if err := d.launch(ctx, ref, r, req); err != nil {
			return err
		}

		d.repairs.add(name, drift)
		return nil
	})
}

// prepare creates the Deployment of a revision without pods. The other objects end with it.
func (d *Driver) prepare(ctx context.Context, ref deploy.Ref, r revision, req deploy.Request) error {
	o, err := d.manifest(ref, r.number, "").deployment(0, req, time.Now())
	if err != nil {
		return err
	}

	if err := d.create(ctx, deployments, o); err != nil {
		return err
	}

	return errChanged
}

// launch delivers the request and starts new pods. Those of a former start, which have crashed,
// end.
func (d *Driver) launch(ctx context.Context, ref deploy.Ref, r revision, req deploy.Request) error {
	m := d.manifest(ref, r.number, string(r.app.UID))
	request, err := m.secret(req)
	if err != nil {
		return err
	}

	route, err := m.service()
	if err != nil {
		return err
	}

	rules, err := m.policy()
	if err != nil {
		return err
	}

	app, err := m.deployment(d.cfg.replicas(req.Deployment), req, time.Now())
	if err != nil {
		return err
	}

	if err := d.apply(ctx, policies, rules, r.policy); err != nil {
		return err
	}

	if err := d.apply(ctx, services, route, nil); err != nil {
		return err
	}

	if err := d.apply(ctx, secrets, request, r.secret); err != nil {
		return err
	}

	if r.phase() == deploy.Changed && r.app.Drift == "" {
		return nil // its pods continue
	}

	return d.apply(ctx, deployments, app, &r.app.object)
}

// SetKeys replaces the file with the keys in the Secret of each revision, and then changes the
// pods, so that their kubelet mounts it without delay. The runtimes read it again within a second.
func (d *Driver) SetKeys(ctx context.Context, ref deploy.Ref, keys []agent.Secret) error {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = string(key)
	}

	data := fields{agentvalue.DeployedKeys: encoded([]byte(strings.Join(texts, ",")))}
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		var errs []error
		for _, r := range f.revisions {
			if r.secret == nil {
				continue
			}

			if err := d.patch(ctx, secrets, r.secret, fields{}, fields{"data": data}); err != nil {
				return err
			}

			for _, p := range r.pods {
				p.ResourceVersion = "" // its status changes often
				errs = append(errs, d.patch(ctx, pods, &p.object, fields{noteKeys: time.Now().UTC().Format(time.RFC3339Nano)}, nil))
			}
		}

		return errors.Join(errs...)
	})
}
