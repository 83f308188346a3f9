// Package process runs deployments as processes on the machine of the hub: each is a process of the
// hub's own executable, in a private directory, listening on a loopback port.
//
//	driver, err := process.New(process.Config{Dir: "data/deployments", Env: env})
//	if err != nil { ... }
//
// The processes continue when the hub ends, and a hub that starts later finds them by process id
// and start time. All hubs that share a database must share the directory.
//
// The directory of a deployment has
//
//	work/          the working directory of the agent
//	home/          its home directory
//	state/         its conversations and downloaded skills
//	7/             what belongs to revision 7:
//	  agents.yaml  the configuration, with the keys of providers
//	  env.json     the environment
//	  keys         the API keys of the runtime
//	  secret-NAME  the value of a secret variable
//	  state.json   the process
//	  private/     its temporary files
//	  log, log.1   the output of the runtime
//
// A former version had the files of one revision next to work.
//
// On Linux, all processes of a deployment are confined by a nested sandbox: they see the files of
// the system, of the toolchains on PATH and of Read and Write, and of the deployment: they change
// work, home, state and private. A runtime sees no process but its own. If the hub is root,
// each deployment has its own user id, which is recorded as the group of its directory.
// [Driver.Unconfined] reports what is not in force.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/sandbox"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Config configures [New].
type Config struct {
	// Dir contains a directory for each deployment. It is created for this user only. Required.
	Dir string

	// Command is the absolute path of an executable with arguments, which is started as the runtime
	// of each deployment, as agentvalue.DeployedArg has it. Defaults to this program with that
	// argument: it calls host.Run of runtime/host then.
	Command []string

	// Env is the environment of the runtimes, as "NAME=value", in addition to that of a deployment.
	// It should have PATH, and no secrets. HOME is that of the deployment.
	Env []string

	// Secrets are variables of the runtimes with the values in files: NAME_FILE is the path of
	// NAME.
	Secrets map[string]agent.Secret

	// Home is the home directory of the user, which no default makes readable.
	Home string

	// Hidden are other files and directories of the hub, which no default makes readable, although
	// they are inside a directory of the system or of PATH. All are absolute.
	Hidden []string

	// Read are files and directories that the runtimes may read, in addition to those of the system
	// and of PATH. Write are those that they may change too. All are absolute.
	Read  []string
	Write []string

	// Users are the first and the last of the user ids that deployments get if the hub is root. No
	// other program should have one of them. Zero means that the runtimes are of the user of the
	// hub.
	Users [2]int

	// Default has the memory and the processes of agents without these settings, where this system
	// limits them: see [Driver.Unlimited]. A zero field sets no limit.
	Default agent.Deployment

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
	limits     sandbox.Support // of memory and processes

	waiting sync.WaitGroup // for processes that this one has started
	exits   sync.Map       // from the folder of a revision to the exit of its last process
	ports   sync.Map       // from the folder of a revision to its listener
}

var _ deploy.Driver = (*Driver)(nil)

// New returns a driver. It starts nothing.
func New(cfg Config) (*Driver, error) {
	if cfg.Dir == "" {
		return nil, errors.New("make process deployer: Dir is required")
	}

	if err := supported(); err != nil {
		return nil, fmt.Errorf("make process deployer: %w", err)
	}

	var err error
	if len(cfg.Command) == 0 {
		executable, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("make process deployer: find the executable: %w", err)
		}

		cfg.Command = []string{executable, agentvalue.DeployedArg}
	}

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

// keyPattern is that of a deployment key, and of a UID.
var keyPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,127}$`)

// folder returns the directory of a deployment, KEY.UID, or KEY if it has no UID.
func (d *Driver) folder(ref deploy.Ref) (folder, error) {
	if !keyPattern.MatchString(ref.Key) || ref.UID != "" && !keyPattern.MatchString(ref.UID) {
		return folder{}, fmt.Errorf("deployment key %.200q is not valid", ref.Key)
	}

	name := ref.Key
	if ref.UID != "" {
		name += "." + ref.UID
	}

	return folder{root: d.cfg.Dir, dir: filepath.Join(d.cfg.Dir, name)}, nil
}

// Apply configures a revision and starts its runtime. If a former runtime of the revision ends, it
// waits for that.
func (d *Driver) Apply(ctx context.Context, ref deploy.Ref, number int64, req deploy.Request) error {
	if err := d.CheckDeployment(req.Deployment); err != nil {
		return err
	}

	return d.change(ctx, ref, true, func(f folder) error {
		r := f.revision(number)
		s, err := r.load()
		switch {
		case err != nil:
			return clean("read state of deployment", err)
		case s.alive() && s.StoppedAt.IsZero():
			return nil
		case s.alive():
			return d.terminate(r, s, 0)
		}

		if err := r.configure(req, d.cfg.Secrets); err != nil {
			return err
		}

		s.StoppedAt, s.CutAt, s.Revision = time.Time{}, time.Time{}, number
		return d.start(r, &s, d.withDefaults(req.Deployment))
	})
}

// SetKeys replaces the files with the keys, which the runtimes read again within a second.
func (d *Driver) SetKeys(ctx context.Context, ref deploy.Ref, keys []agent.Secret) error {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = string(key)
	}

	return d.change(ctx, ref, false, func(f folder) error {
		all, err := f.revisions()
		for _, r := range all {
			err = errors.Join(err, r.setKeys(strings.Join(texts, ",")))
		}

		return err
	})
}

// Stop requests the runtime to end, and kills it after the patience and a few seconds.
func (d *Driver) Stop(ctx context.Context, ref deploy.Ref, number int64, patience time.Duration) error {
	return d.change(ctx, ref, false, func(f folder) error {
		r := f.revision(number)
		ended, err := d.end(r, patience)
		if !ended || err != nil || !r.exists() {
			return err
		}

		s, err := r.load()
		if err != nil || s.PID == 0 && !s.StoppedAt.IsZero() {
			return err
		}

		s.PID, s.StoppedAt = 0, cmp.Or(s.StoppedAt, time.Now())
		return r.save(s)
	})
}

// Discard stops the runtime of a revision, and then deletes the files of the revision.
func (d *Driver) Discard(ctx context.Context, ref deploy.Ref, number int64) error {
	return d.change(ctx, ref, false, func(f folder) error {
		r := f.revision(number)
		ended, err := d.end(r, 0)
		if !ended || err != nil {
			return err
		}

		for _, path := range r.own() {
			trash, err := f.remove(path)
			if err != nil {
				return err
			}

			d.empty(trash)
		}

		return nil
	})
}

// Delete stops all runtimes, and then deletes the directory of the deployment.
func (d *Driver) Delete(ctx context.Context, ref deploy.Ref) error {
	return d.change(ctx, ref, false, func(f folder) error {
		all, err := f.revisions()
		if err != nil {
			return err
		}

		running := false
		for _, r := range all {
			ended, err := d.end(r, 0)
			if err != nil {
				return err
			}

			running = running || !ended
		}

		if running {
			return nil
		}

		killLeft("HOME=" + f.path(homeDir))
		trash, err := f.remove(f.dir)
		if err == nil {
			d.empty(trash)
		}

		return err
	})
}

// end makes one step to the end of a runtime, and reports whether nothing of it is left.
func (d *Driver) end(r revision, patience time.Duration) (ended bool, err error) {
	s, err := r.load()
	if err != nil {
		return false, clean("read state of deployment", err)
	}

	if s.alive() {
		return false, d.terminate(r, s, patience)
	}

	s.reap(r)
	d.release(r)
	return true, nil
}

// change calls do with the directory of a deployment while it is locked. Without create, do is not
// called if there is none.
func (d *Driver) change(ctx context.Context, ref deploy.Ref, create bool, do func(folder) error) error {
	f, err := d.folder(ref)
	if err != nil || !create && !f.exists() {
		return err
	}

	l, err := d.lock(ctx, filepath.Base(f.dir))
	if err != nil {
		return clean("lock deployment", err)
	}

	defer l.unlock()
	switch {
	case !f.exists() && !create:
		return nil
	case l.owner != ref.Owner:
		if f.exists() && l.owner != "" {
			return nil // that of another database, of a former version
		}

		if err := l.own(ref.Owner); err != nil {
			return err
		}
	}

	return do(f)
}
