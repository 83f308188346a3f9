package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Observe returns the state of a deployment. It does not wait for calls that change it. It moves a
// log that is too large to the older part.
func (d *Driver) Observe(_ context.Context, ref deploy.Ref) (o deploy.Observed, err error) {
	f, err := d.folder(ref)
	if err != nil || !f.exists() {
		return o, err
	}

	if owner := d.ownerOf(f); owner != "" && owner != ref.Owner { // a damaged file has none
		return o, nil
	}

	o.Exists = true
	all, err := f.revisions()
	for _, r := range all {
		one, failed := d.observe(r)
		err = errors.Join(err, failed)
		o.Runtimes = append(o.Runtimes, one)
	}

	return o, err
}

func (d *Driver) observe(r revision) (deploy.Runtime, error) {
	s, err := r.load()
	if err != nil {
		return deploy.Runtime{}, clean("read state of deployment", err)
	}

	o := deploy.Runtime{Revision: r.number, StartedAt: s.StartedAt, Phase: deploy.Stopped}
	var last exit // of this process, if this driver started it
	if v, _ := d.exits.Load(r.folder); v != nil && v.(exit).birth == s.Birth {
		last = v.(exit)
	}

	alive := s.alive() || last.running && s.PID != 0
	if alive {
		o.URL = "http://" + s.Addr
	}

	d.rotate(r) // also if it has ended: one that ends soon is started again and again
	switch {
	case alive && s.StoppedAt.IsZero():
		o.Phase = deploy.Running
	case alive:
		o.Phase = deploy.Stopping
	case s.damaged:
		o.Phase, o.Message = deploy.Exited, "its state file is damaged"
	case s.StoppedAt.IsZero() && s.PID != 0:
		o.Phase, o.Message = deploy.Exited, last.note
	}

	return o, nil
}

// List returns the deployments of the owner.
func (d *Driver) List(_ context.Context, owner string) ([]deploy.Ref, error) {
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return nil, clean("list deployments", err)
	}

	var all []deploy.Ref
	for _, e := range entries {
		key, uid, _ := strings.Cut(e.Name(), ".")
		ref := deploy.Ref{Key: key, UID: uid, Owner: owner}
		f, err := d.folder(ref)
		if err == nil && e.IsDir() && d.ownerOf(f) == owner {
			all = append(all, ref)
		}
	}

	return all, nil
}

// ownerOf returns the owner of a deployment. It takes no lock: the owner does not change.
func (d *Driver) ownerOf(f folder) string {
	text, err := readRegular(filepath.Join(d.cfg.Dir, lockDir, filepath.Base(f.dir)), maxLock)
	if err != nil {
		return ""
	}

	return ownerIn(string(text))
}

// clean returns an error without the paths of the machine, which users see.
func clean(what string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}

	if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}

	return fmt.Errorf("%s: %w", what, err)
}
