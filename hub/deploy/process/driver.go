// Package process runs deployments as processes on the machine of the hub: each is the runtime
// command of the hub's own executable, in a private directory, listening on a loopback port.
//
//	driver, err := process.New(process.Config{
//		Dir: "data/deployments", Command: []string{executable, "runtime"}, Env: env,
//	})
//	if err != nil { ... }
//
// The processes continue when the hub ends, and a hub that starts later finds them by process id
// and start time. All hubs that share a database must share the directory.
//
// The directory of a deployment has
//
//	agents.yaml    the configuration, with the keys of providers
//	env.json       the environment
//	keys           the API keys of the runtime
//	state.json     the process and the revision
//	work/          the working directory of the agent
//	home/          its home directory
//	state/         its conversations and downloaded skills
//	private/       its temporary files
//	log, log.1     the output of the runtime
//
// On Linux, all processes of a deployment are confined by a nested sandbox: they see the files of
// the system, of the toolchains on PATH and of Read and Write, and their own directory, of which
// they change work, home, state and private. They see no process but their own. If the hub is root,
// each deployment has its own user id, which is recorded as the group of its directory.
// [Driver.Unconfined] reports what is not in force.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Config configures [New].
type Config struct {
	// Dir contains a directory for each deployment. It is created for this user only. Required.
	Dir string

	// Command is the absolute path of an executable with arguments, to which the flags of the
	// runtime command are added. Required.
	Command []string

	// Env is the environment of the runtimes, as "NAME=value", in addition to that of a deployment.
	// It should have PATH, and no secrets. HOME is that of the deployment.
	Env []string

	// Home is the home directory of the user, which no default makes readable.
	Home string

	// Hidden are other files and directories of the hub, which no default makes readable, although
	// they are inside a directory of the system or of PATH. All are absolute.
	Hidden []string

	// Read are files and directories that the runtimes may read, in addition to those of the system
	// and of PATH. Write are those that they may change too. All are absolute.
	Read  []string
	Write []string

	// Users are the user ids that deployments get if the hub is root. No other program should have
	// one of them. Zero means that the runtimes are of the user of the hub.
	Users Users

	// Grace is how long a runtime may take to end on request, until it is killed. Its runs have
	// three quarters of that. Defaults to 12 s.
	Grace time.Duration

	// MaxLog bounds the log of a deployment, of which one older part is retained. Defaults to 8
	// MiB.
	MaxLog int64
}

// Driver is a deploy.Driver. It is safe for concurrent use.
type Driver struct {
	cfg        Config
	users      bool // deployments have user ids of their own
	unconfined string

	waiting sync.WaitGroup // for processes that this one has started
	exits   sync.Map       // from folder to the exit of its last process
	ports   sync.Map       // from folder to the listener of its runtime
}

var _ deploy.Driver = (*Driver)(nil)

// New returns a driver. It starts nothing.
func New(cfg Config) (*Driver, error) {
	if cfg.Dir == "" || len(cfg.Command) == 0 {
		return nil, errors.New("make process deployer: Dir and Command are required")
	}
	if err := supported(); err != nil {
		return nil, fmt.Errorf("make process deployer: %w", err)
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("make process deployer: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make process deployer: %w", err)
	}
	d := &Driver{cfg: cfg}
	if err := d.sweep(time.Now()); err != nil {
		return nil, fmt.Errorf("make process deployer: %w", err)
	}
	if err := d.probe(); err != nil {
		return nil, fmt.Errorf("make process deployer: %w", err)
	}
	cfg.Users = d.cfg.Users
	cfg.Grace = cmp.Or(cfg.Grace, 12*time.Second)
	cfg.MaxLog = cmp.Or(cfg.MaxLog, 8<<20)
	d.cfg = cfg
	return d, nil
}

// Backend returns "process".
func (d *Driver) Backend() string { return "process" }

// keyPattern is that of a deployment key, which is the name of a directory.
var keyPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,127}$`)

// folder returns the directory of a deployment.
func (d *Driver) folder(key string) (folder, error) {
	if !keyPattern.MatchString(key) {
		return "", fmt.Errorf("deployment key %.200q is not valid", key)
	}
	return folder(filepath.Join(d.cfg.Dir, key)), nil
}

// Apply replaces the configuration of a deployment and starts its runtime. While a runtime of
// another revision runs, it only stops that.
func (d *Driver) Apply(ctx context.Context, claim deploy.Claim, revision int64, req deploy.Request) error {
	f, err := d.folder(claim.Key)
	if err != nil {
		return err
	}
	return d.change(ctx, f, claim, true, func(s *state) error {
		if s.alive() {
			if s.Revision == revision {
				return nil
			}
			return d.terminate(f, s)
		}
		if err := f.configure(req); err != nil {
			return err
		}
		s.Revision, s.StoppedAt = revision, time.Time{}
		return d.start(f, s)
	})
}

// Start starts the runtime with its last configuration.
func (d *Driver) Start(ctx context.Context, claim deploy.Claim) error {
	f, err := d.folder(claim.Key)
	if err != nil {
		return err
	}
	return d.change(ctx, f, claim, false, func(s *state) error {
		if s.Revision == 0 || s.alive() && s.StoppedAt.IsZero() {
			return nil
		}
		if s.alive() {
			return d.terminate(f, s) // it ends already, and cannot be called back
		}
		s.StoppedAt = time.Time{}
		return d.start(f, s)
	})
}

// SetKeys replaces the file with the keys, which the runtime reads again within a second.
func (d *Driver) SetKeys(ctx context.Context, claim deploy.Claim, keys []agent.Secret) error {
	f, err := d.folder(claim.Key)
	if err != nil {
		return err
	}
	return d.change(ctx, f, claim, false, func(*state) error {
		texts := make([]string, len(keys))
		for i, key := range keys {
			texts[i] = string(key)
		}
		return f.setKeys(strings.Join(texts, ","))
	})
}

// Stop requests the runtime to end, and kills it after the grace period.
func (d *Driver) Stop(ctx context.Context, claim deploy.Claim) error {
	f, err := d.folder(claim.Key)
	if err != nil {
		return err
	}
	return d.change(ctx, f, claim, false, func(s *state) error {
		if s.alive() {
			return d.terminate(f, s)
		}
		if s.PID == 0 && !s.StoppedAt.IsZero() {
			return nil
		}
		s.reap(f)
		d.release(f)
		s.PID, s.StoppedAt = 0, cmp.Or(s.StoppedAt, time.Now())
		return f.save(*s)
	})
}

// Delete stops the runtime, and then deletes the directory of the deployment.
func (d *Driver) Delete(ctx context.Context, claim deploy.Claim) error {
	f, err := d.folder(claim.Key)
	if err != nil {
		return err
	}
	return d.change(ctx, f, claim, false, func(s *state) error {
		if s.alive() {
			return d.terminate(f, s)
		}
		s.reap(f)
		d.release(f)
		trash, err := f.remove()
		if err == nil {
			d.empty(trash)
		}
		return err
	})
}

// change calls do with the state of a deployment while its key is locked. It fails with
// deploy.ErrFenced if a higher fence was used. Without create, do is not called if there is no
// deployment.
func (d *Driver) change(ctx context.Context, f folder, claim deploy.Claim, create bool, do func(*state) error) error {
	l, err := d.lock(ctx, claim.Key)
	if err != nil {
		return clean("lock deployment", err)
	}
	defer l.unlock()
	if l.owner != "" && l.owner != claim.Owner && f.exists() {
		return deploy.ErrForeign
	}
	if claim.Fence < l.fence && (l.owner == "" || l.owner == claim.Owner) {
		return &deploy.FencedError{Fence: l.fence}
	}
	if claim.Fence > l.fence || claim.Owner != l.owner {
		if err := l.raise(claim); err != nil {
			return err
		}
	}
	if !create && !f.exists() {
		return nil
	}
	s, err := f.load()
	if err != nil {
		return clean("read state of deployment", err)
	}
	return do(&s)
}

// Observe returns the state of a deployment. It does not wait for calls that change it.
func (d *Driver) Observe(_ context.Context, key string) (deploy.Observed, error) {
	f, err := d.folder(key)
	if err != nil {
		return deploy.Observed{}, err
	}
	s, err := f.load()
	if err != nil {
		return deploy.Observed{}, clean("read state of deployment", err)
	}
	if !f.exists() {
		return deploy.Observed{Phase: deploy.Absent}, nil
	}
	o := deploy.Observed{Revision: s.Revision, StartedAt: s.StartedAt, Phase: deploy.Stopped}
	o.Owner = d.ownerOf(key)
	var last exit // of this process, if this driver started it
	if v, _ := d.exits.Load(f); v != nil && v.(exit).birth == s.Birth {
		last = v.(exit)
	}
	switch alive := s.alive() || last.running && s.PID != 0; {
	case alive && s.StoppedAt.IsZero():
		o.Phase, o.URL = deploy.Running, "http://"+s.Addr
		f.rotate(d.cfg.MaxLog)
	case alive:
		o.Phase = deploy.Stopping
	case s.damaged:
		o.Phase, o.Message = deploy.Exited, "its state file is damaged"
	case s.StoppedAt.IsZero() && s.PID != 0:
		o.Phase, o.Message = deploy.Exited, last.note
		_, _ = d.reserve(f, s.Addr) // Start tries again
	}
	return o, nil
}

// List returns the keys of the directories that the owner has claimed.
func (d *Driver) List(_ context.Context, owner string) ([]string, error) {
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return nil, clean("list deployments", err)
	}
	var keys []string
	for _, e := range entries {
		if !e.IsDir() || !keyPattern.MatchString(e.Name()) {
			continue
		}
		if d.ownerOf(e.Name()) == owner {
			keys = append(keys, e.Name())
		}
	}
	return slices.Clip(keys), nil
}

// ownerOf returns the owner of a deployment. It takes no lock: the owner does not change.
func (d *Driver) ownerOf(key string) string {
	var l locked
	if text, err := readRegular(filepath.Join(d.cfg.Dir, lockDir, key), maxLock); err == nil {
		l.parse(string(text))
	}
	return l.owner
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
