package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Observe returns the state of a deployment.
func (d *Driver) Observe(ctx context.Context, ref deploy.Ref) (o deploy.Observed, err error) {
	if err := checkRef(ref); err != nil {
		return o, err
	}

	ctx, cancel := d.bounded(ctx)
	defer cancel()
	f, err := d.recent(ctx, ref)
	if err != nil {
		return o, err
	}

	if len(f.runtimes) == 0 {
		if f.volumes, err = d.volumes(ctx, ref); err != nil {
			return o, err
		}
	}

	if o.Exists = f.exists(); !o.Exists {
		return o, nil
	}

	for _, r := range f.runtimes {
		one, err := d.observe(ctx, r)
		if gone(err) {
			continue
		}

		if err != nil {
			return o, fault(ctx, "inspect container", err)
		}

		o.Runtimes = append(o.Runtimes, one)
	}

	return o, nil
}

// observe returns the state of a container. While the engine lists a running one unchanged, it is
// that of before.
func (d *Driver) observe(ctx context.Context, r runtimeContainer) (o deploy.Runtime, err error) {
	if o, known := d.sight(r.id, r.shown); known {
		return o, nil
	}

	listed := r.alive()
	found, err := d.engine.ContainerInspect(ctx, r.id, client.ContainerInspectOptions{})
	if err != nil {
		return o, err
	}

	c := found.Container
	o = deploy.Runtime{Revision: r.revision, Phase: deploy.Stopped}
	if c.State == nil {
		return o, nil
	}

	r.state = c.State.Status
	if at, err := time.Parse(time.RFC3339Nano, c.State.StartedAt); err == nil && at.Year() > 1 {
		o.StartedAt = at.UTC().Truncate(time.Microsecond)
	}

	switch {
	case r.alive() && r.Step == stepNone:
		o.Phase = deploy.Running
	case r.alive():
		o.Phase = deploy.Stopping
	case r.Step == stepNone && r.state != container.StateCreated:
		o.Phase, o.Message = deploy.Exited, exit(c.State, c.HostConfig)
	}

	if r.alive() {
		o.URL, err = d.address(ctx, r, c.NetworkSettings)
	}

	if err == nil && listed && o.URL != "" {
		d.remember(r.id, sighting{shown: r.shown, runtime: o})
	}

	return o, err
}

// exit states for the user why a container ended.
func exit(s *container.State, limits *container.HostConfig) string {
	switch {
	case s.OOMKilled && limits != nil:
		return fmt.Sprintf("it needed more memory than its limit of %d MiB", limits.Memory>>20)
	case s.Error != "":
		return s.Error
	}

	return "exit status " + strconv.Itoa(s.ExitCode)
}

// List returns the deployments of an owner.
func (d *Driver) List(ctx context.Context, owner string) ([]deploy.Ref, error) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	ours := client.Filters{}.Add("label", labelOwner+"="+owner)
	containers, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, fault(ctx, "list containers", err)
	}

	volumes, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: ours})
	if err != nil {
		return nil, fault(ctx, "list volumes", err)
	}

	members := map[string]int{}
	for _, c := range containers.Items {
		members[c.Labels[labelNetwork]]++
	}

	d.sweep(owner, members)
	seen := map[deploy.Ref]bool{}
	for _, c := range containers.Items {
		seen[refOf(c.Labels)] = true
	}

	for _, v := range volumes.Items {
		seen[refOf(v.Labels)] = true
	}

	maps.DeleteFunc(seen, func(ref deploy.Ref, _ bool) bool { return checkRef(ref) != nil })
	return slices.Collect(maps.Keys(seen)), nil
}

// maxTail bounds the part of a log that Logs returns, in bytes.
const maxTail = 2 << 20

// Logs returns the last lines of the log of a revision.
func (d *Driver) Logs(ctx context.Context, ref deploy.Ref, number int64, tail int) ([]string, error) {
	if err := checkRef(ref); err != nil {
		return nil, err
	}

	ctx, cancel := d.bounded(ctx)
	defer cancel()
	f, err := d.find(ctx, ref)
	if err != nil {
		return nil, err
	}

	r, found := f.runtime(number)
	if !found {
		return nil, nil
	}

	stream, err := d.engine.ContainerLogs(ctx, r.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(max(tail, 0))})
	if gone(err) {
		return nil, nil
	}

	if err != nil {
		return nil, fault(ctx, "read log", err)
	}

	var text lastBytes
	_, err = stdcopy.StdCopy(&text, &text, stream)
	if err = errors.Join(err, stream.Close()); err != nil {
		return nil, fault(ctx, "read log", err)
	}

	return text.lines(tail), nil
}

// lastBytes retains the last bytes that are written to it.
type lastBytes struct{ text []byte }

var _ io.Writer = (*lastBytes)(nil)

func (b *lastBytes) Write(p []byte) (int, error) {
	b.text = append(b.text, p...)
	if len(b.text) > 2*maxTail {
		b.text = bytes.Clone(b.text[len(b.text)-maxTail:])
	}

	return len(p), nil
}

// lines returns at most the last n lines.
func (b *lastBytes) lines(n int) []string {
	text := b.text[max(len(b.text)-maxTail, 0):]
	if len(text) == 0 {
		return nil
	}

	lines := strings.Split(strings.TrimSuffix(strings.ToValidUTF8(string(text), "\uFFFD"), "\n"), "\n")
	return lines[max(len(lines)-n, 0):]
}
