package kubernetes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Apply creates the objects of a revision, which have no effect at first, or makes them those of
// the request again, and then starts its pods. If former pods of the revision end, it waits for
// that.
func (d *Driver) Apply(ctx context.Context, claim deploy.Claim, number int64, req deploy.Request) error {
	if err := errors.Join(checkEnv(req), d.CheckDeployment(req.Deployment)); err != nil {
		return err
	}

	if _, err := d.manifest(claim, number, "").secret(&req); err != nil { // before anything is written
		return err
	}

	drift, name := "", revisionName(claim.Key, number)
	return d.change(ctx, claim, true, func(ctx context.Context, f deployment) error {
		r, _ := f.revision(number)
		phase := r.phase()
		switch {
		case phase == deploy.Running:
			return nil
		case phase == deploy.Stopping:
			return d.terminate(ctx, claim, r, 0)
		case drift == "" && (phase == deploy.Changed || r.app == nil && d.repairs.started(name)):
			drift = r.drift()
			if err := d.repairs.check(name, drift); err != nil {
				return err
			}
		}

		if r.app == nil || r.secret == nil || r.policy == nil {
			return d.prepare(ctx, claim, r, req)
		}

		if r.secret.OwnerReferences == nil || r.secret.OwnerReferences[0].UID != r.app.UID { // of a former Deployment
			if err := d.remove(ctx, secrets, r.secret, nil); err != nil {
				return err
			}

			return errChanged
		}

		if d.cfg.StorageSize != "" && f.data == nil {
			if err := d.apply(ctx, volumeClaims, d.manifest(claim, number, "").volumeClaim(), nil); err != nil {
				return err
			}
		} else if f.data != nil && f.data.DeletionTimestamp != nil {
			return nil // of the former deployment of this name
		}

		if err := d.launch(ctx, claim, r, req); err != nil {
			return err
		}

		d.repairs.add(name, drift)
		return nil
	})
}

// prepare creates objects that have no effect yet. They are read again, with the claim, before they
// get one.
func (d *Driver) prepare(ctx context.Context, claim deploy.Claim, r revision, req deploy.Request) error {
	if r.app == nil {
		o, err := d.manifest(claim, r.number, "").deployment(0, req, time.Now())
		if err != nil {
			return err
		}

		if err := d.create(ctx, deployments, o); err != nil {
			return err
		}

		return errChanged
	}

	m := d.manifest(claim, r.number, string(r.app.UID))
	if r.secret == nil {
		o, err := m.secret(nil)
		if err != nil {
			return err
		}

		if err := d.create(ctx, secrets, o); err != nil {
			return err
		}
	}

	if r.policy == nil {
		o, err := m.noPolicy()
		if err != nil {
			return err
		}

		if err := d.create(ctx, policies, o); err != nil {
			return err
		}
	}

	return errChanged
}

// launch delivers the request and starts new pods. Those of a former start, which have crashed,
// end.
func (d *Driver) launch(ctx context.Context, claim deploy.Claim, r revision, req deploy.Request) error {
	m := d.manifest(claim, r.number, string(r.app.UID))
	request, err := m.secret(&req)
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
func (d *Driver) SetKeys(ctx context.Context, claim deploy.Claim, keys []agent.Secret) error {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = string(key)
	}

	data := fields{agent.DeployedKeys: encoded([]byte(strings.Join(texts, ",")))}
	return d.change(ctx, claim, false, func(ctx context.Context, f deployment) error {
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
