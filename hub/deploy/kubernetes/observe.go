package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Observe returns the state of a deployment.
func (d *Driver) Observe(ctx context.Context, ref deploy.Ref) (o deploy.Observed, err error) {
	if err := checkRef(ref); err != nil {
		return o, err
	}

	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if err := d.current(ctx); err != nil {
		return o, err
	}

	f := d.cached(ref)
	if !f.exists() { // a watch may be late, and the caller forgets a deployment that does not exist
		if f, err = d.find(ctx, ref); err != nil {
			return o, err
		}
	}

	o.Exists = f.exists()
	for _, r := range f.revisions {
		one := deploy.Runtime{Revision: r.number, Phase: r.phase(), Message: r.message(&d.cfg), Preparing: r.preparing(&d.cfg)}
		if r.app != nil {
			one.StartedAt = r.app.started()
		}

		if one.Phase != deploy.Stopped {
			one.URL = d.address(r)
			one.Replicas = d.replicas(r)
		}

		o.Runtimes = append(o.Runtimes, one)
	}

	return o, nil
}

// replicas returns the URLs of the pods of a runtime if each has a disk of its own.
func (d *Driver) replicas(r revision) (urls []string) {
	if r.app != nil && r.app.Spec.Replicas == 1 || len(r.pods) < 2 || d.cfg.StorageSize != "" {
		return nil
	}

	for _, p := range r.pods {
		if p.Status.PodIP != "" {
			urls = append(urls, fmt.Sprintf("http://%s:%d", p.Status.PodIP, listenPort))
		}
	}

	return urls
}

// address returns the URL of a runtime, or "" if it has none yet.
func (d *Driver) address(r revision) string {
	host := ""
	switch {
	case d.cfg.PodAddress:
		for _, p := range slices.Concat(r.pods, r.current()) {
			host = cmp.Or(p.Status.PodIP, host)
		}
	case !d.cfg.PodAddress && r.service != nil:
		host = r.service.Spec.ClusterIP
	}

	if host == "" {
		return ""
	}

	return fmt.Sprintf("http://%s:%d", host, listenPort)
}

// phase returns the state of a runtime, or "" if there is none.
func (r revision) phase() deploy.Phase {
	switch {
	case r.app == nil && len(r.pods) == 0:
		return ""
	case r.app == nil || r.app.DeletionTimestamp != nil:
		return deploy.Stopping
	case !r.app.stopped().IsZero() && len(r.pods) > 0:
		return deploy.Stopping
	case !r.app.stopped().IsZero(), r.app.Spec.Replicas == 0 && r.app.Drift == "": // it was only created
		return deploy.Stopped
	case r.drift() != "":
		return deploy.Changed
	case r.crashed():
		return deploy.Exited
	}

	return deploy.Running
}

// current returns the pods of the last start.
func (r revision) current() []*pod {
	return slices.DeleteFunc(slices.Clone(r.pods), func(p *pod) bool {
		return r.app == nil || p.DeletionTimestamp != nil || !p.started().Equal(r.app.started())
	})
}

// preparing reports whether there are pods of the last start, and nodes prepare all of them.
func (r revision) preparing(cfg *Config) bool {
	all := r.current()
	return len(all) > 0 && !slices.ContainsFunc(all, func(p *pod) bool { return !p.preparing(cfg) })
}

// eviction returns the record of a pod of the last start that its node has evicted, or nil.
func (r revision) eviction() *pod {
	for _, p := range r.evicted {
		if r.app != nil && p.started().Equal(r.app.started()) {
			return p
		}
	}

	return nil
}

// crashed reports whether there are pods of the last start, and all have crashed, or the only one
// was evicted. The cluster starts them again, with a pause or without; Apply replaces them.
func (r revision) crashed() bool {
	if r.eviction() != nil && r.app.Spec.Replicas == 1 {
		return true
	}

	all := r.current()
	return len(all) > 0 && !slices.ContainsFunc(all, func(p *pod) bool { return !p.crashed() })
}

func (p *pod) crashed() bool {
	return slices.ContainsFunc(p.Status.Containers, func(c containerStatus) bool {
		return c.RestartCount > 0 || c.State.Terminated != nil
	})
}

// active reports whether a process of the pod may exist. One that was evicted remains as a record.
func (p *pod) active() bool {
	return p.DeletionTimestamp != nil || p.Status.Phase != "Failed" && p.Status.Phase != "Succeeded"
}

func (o *object) started() time.Time { return o.time(noteStarted) }
func (o *object) stopped() time.Time { return o.time(noteStopped) }

func (o *object) time(note string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, o.Annotations[note])
	return at.UTC().Truncate(time.Microsecond)
}

// message states for the user why a runtime does not run.
func (r revision) message(cfg *Config) string {
	text, evicted := "", r.eviction()
	switch phase := r.phase(); phase {
	case deploy.Changed:
		text = "someone has changed its objects in the cluster: " + r.drift()
	case deploy.Exited, deploy.Running:
		if evicted != nil && phase == deploy.Exited {
			text = evicted.eviction(cfg)
			break
		}

		for _, p := range r.current() {
			text = cmp.Or(text, p.cause(cfg))
		}

		switch {
		case len(r.current()) == 0:
			text = r.app.cause()
		case r.preparing(cfg):
			text = "the node prepares its pod: it pulls the image, or mounts the volumes"
		case text == "" && evicted != nil:
			text = evicted.eviction(cfg)
		}
	case deploy.Stopping:
		for _, p := range r.pods {
			if p.DeletionTimestamp != nil && time.Since(p.DeletionTimestamp.Time) > lateAfter {
				text = "its pod does not end: does the node respond?"
			}
		}
	}

	return short(text)
}

// lateAfter is how long after its time a pod may exist.
const lateAfter = 30 * time.Second
