package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	user       = 65532
	dataDir    = "/data"
	privateDir = "/run/agenthost"
	listenPort = 8080
	maxLog     = "8m" // of a file, of which one older is retained
)

// Apply creates the container of a revision, or starts it again with the request. If a former
// runtime of the revision ends, it waits for that.
func (d *Driver) Apply(ctx context.Context, ref deploy.Ref, number int64, req deploy.Request) error {
	if err := d.CheckDeployment(req.Deployment); err != nil {
		return err
	}

	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		r, found := f.runtime(number)
		switch {
		case found && r.alive() && r.Step == stepNone:
			return nil
		case found && r.alive():
			return d.terminate(ctx, r, 0)
		}

		data := f.data(ref)
		n, err := d.place(ctx, ref, number, req, data, r)
		if err == nil {
			err = d.checkVolume(ctx, ref, n, data)
		}

		if err != nil {
			return err
		}

		return d.start(ctx, n, req)
	})
}

// place returns the container of a revision in a network of its tenant, which it creates if there
// is none with these settings. r is the present one, if it has a name, and data a volume.
func (d *Driver) place(ctx context.Context, ref deploy.Ref, number int64, req deploy.Request, data string, r runtimeContainer) (n name, err error) {
	if err := d.lock(ctx); err != nil {
		return n, err
	}

	defer d.unlock()
	where, err := d.network(ctx, ref.Owner, req.Tenant, r.labels[labelNetwork])
	if err != nil {
		return n, err
	}

	options, err := d.options(ref, number, req, data, where)
	if err != nil || r.labels[labelSpec] == options.Config.Labels[labelSpec] {
		return r.name, err
	}

	if r.id != "" { // it was created with other settings
		if err := d.remove(ctx, r.name.String()); err != nil {
			return n, err
		}
	}

	return d.create(ctx, options)
}

// create creates a container that is not started.
func (d *Driver) create(ctx context.Context, options client.ContainerCreateOptions) (name, error) {
	_, err := d.engine.ContainerCreate(ctx, options)
	if gone(err) {
		return name{}, fmt.Errorf("the Docker engine has no image %s: pull it there", d.cfg.Image)
	}

	return parseName(options.Name), fault(ctx, "create container", moved(err))
}

// start gives a container the request and starts it.
func (d *Driver) start(ctx context.Context, n name, req deploy.Request) error {
	plain := n
	plain.Step, plain.At = stepNone, time.Time{}
	if n != plain {
		if err := d.rename(ctx, n, plain); err != nil {
			return err
		}
	}

	if err := d.deliver(ctx, plain, req); err != nil {
		return err
	}

	_, err := d.engine.ContainerStart(ctx, plain.String(), client.ContainerStartOptions{})
	if gone(err) && d.placeless(ctx, plain) { // another hub has removed its network, which had no container
		if err := d.remove(ctx, plain.String()); err != nil {
			return err
		}

		return errChanged
	}

	return fault(ctx, "start container", moved(err))
}

// options returns the container of a revision.
func (d *Driver) options(ref deploy.Ref, number int64, req deploy.Request, data string, where tenantNetwork) (o client.ContainerCreateOptions, err error) {
	for name := range req.Env {
		if name != deploy.EnvAPIKey {
			return o, fmt.Errorf("the docker deployer has no variable %.100q", name)
		}
	}

	port := network.MustParsePort(strconv.Itoa(listenPort) + "/tcp")
	config := &container.Config{
		Image: d.cfg.Image,
		User:  fmt.Sprintf("%d:%d", user, user),
		Cmd: []string{
			"--config", privateDir + "/" + agentvalue.DeployedFile, "--addr", fmt.Sprintf("0.0.0.0:%d", listenPort),
			"--drain-timeout", req.RunLimit().String(),
		},
		Env:        append([]string{"HOME=" + dataDir + "/home", "AGENT_HTTP_API_KEY_FILE=" + privateDir + "/" + agentvalue.DeployedKeys}, d.cfg.Env...),
		WorkingDir: "/",
	}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Secrets)) {
		config.Env = append(config.Env, name+"_FILE="+privateDir+"/"+name)
	}

	host := &container.HostConfig{
		NetworkMode:    container.NetworkMode(where.id),
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		Tmpfs:          map[string]string{"/tmp": "rw,nosuid,nodev,mode=1777"},
		Mounts:         mounts(ref, strconv.FormatInt(number, 10), data),
		LogConfig:      container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": maxLog, "max-file": "2"}},
		Resources:      d.resources(req.Deployment),
	}
	if where.published {
		config.ExposedPorts = network.PortSet{port: {}}
		host.PortBindings = network.PortMap{port: {{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1})}}} // on a free port
	}

	text, err := json.Marshal([]any{config, host})
	if err != nil {
		return o, fmt.Errorf("encode container: %w", err)
	}

	sum := sha256.Sum256(text)
	config.Labels = labelsOf(ref)
	config.Labels[labelRevision] = strconv.FormatInt(number, 10)
	config.Labels[labelTenant] = req.Tenant
	config.Labels[labelNetwork] = where.id
	config.Labels[labelSpec] = hex.EncodeToString(sum[:8])
	o.Name = newName(ref, number).String()
	o.Config, o.HostConfig = config, host
	return o, nil
}

// resources returns what a container may use.
func (d *Driver) resources(wanted agent.Deployment) container.Resources {
	memory := cmp.Or(wanted.Bytes(), d.cfg.Default.Bytes())
	processors := cmp.Or(wanted.MilliCPU(), d.cfg.Default.MilliCPU())
	processes := cmp.Or(wanted.Processes, d.cfg.Default.Processes)
	return container.Resources{Memory: memory, MemorySwap: memory, NanoCPUs: processors * 1e6, PidsLimit: &processes}
}

// deliver copies the request and the directories of the agent into the volumes of a container.
func (d *Driver) deliver(ctx context.Context, n name, req deploy.Request) error {
	file := req.File()
	file.CWD, file.StateDir = dataDir+"/work", dataDir+"/state"
	text, err := yaml.Marshal(file)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}

	if err := d.copyTo(ctx, n, dataDir, map[string][]byte{"work/": nil, "home/": nil, "state/": nil}); err != nil {
		return err
	}

	files := map[string][]byte{agentvalue.DeployedFile: text, agentvalue.DeployedKeys: []byte(req.Env[deploy.EnvAPIKey])}
	for name, value := range d.cfg.Secrets {
		files[name] = []byte(value)
	}

	return d.copyTo(ctx, n, privateDir, files)
}

// copyTo copies files, and directories with a "/" at the end, into a volume of a container.
func (d *Driver) copyTo(ctx context.Context, n name, dir string, files map[string][]byte) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for path, text := range files {
		h := &tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: 0o400, Size: int64(len(text)), Uid: user, Gid: user, ModTime: time.Now()}
		if strings.HasSuffix(path, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o700
		}

		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(text)
		}

		if err != nil {
			return fmt.Errorf("write archive: %w", err)
		}
	}

	if err := w.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}

	_, err := d.engine.CopyToContainer(ctx, n.String(), client.CopyToContainerOptions{DestinationPath: dir, Content: &archive})
	return fault(ctx, "copy files to container", moved(err))
}

// SetKeys replaces the files with the keys, which the runtimes read again within a second.
func (d *Driver) SetKeys(ctx context.Context, ref deploy.Ref, keys []agent.Secret) error {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = string(key)
	}

	file := map[string][]byte{agentvalue.DeployedKeys: []byte(strings.Join(texts, ","))}
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		var errs []error
		for _, r := range f.runtimes {
			errs = append(errs, d.copyTo(ctx, r.name, privateDir, file))
		}

		return errors.Join(errs...)
	})
}
