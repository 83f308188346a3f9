package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/deeptree"
	"github.com/seed93082962/agenthost/internal/sandbox"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// policy is what the processes of a deployment can reach. The runtime confines its commands
// further.
func (d *Driver) policy(r revision, user int, limits sandbox.Limits) sandbox.Policy {
	path := ""
	for _, variable := range d.cfg.Env {
		if value, found := strings.CutPrefix(variable, "PATH="); found {
			path = value
		}
	}

	return sandbox.Policy{
		Dir:     r.of.path(workDir),
		Private: r.path(privateDir),
		Home:    d.cfg.Home,
		Hidden:  append([]string{d.cfg.Dir}, d.cfg.Hidden...),
		Read:    slices.Concat([]string{r.dir, d.cfg.Command[0]}, d.cfg.Read),
		Write:   slices.Concat([]string{r.of.path(homeDir), r.of.path(stateDir)}, d.cfg.Write),
		Path:    path,
		Network: sandbox.NetworkAll,
		Nested:  true,
		User:    user,
		Limits:  limits,
	}
}

// temporary returns the directory of temporary files.
func (r revision) temporary() string { return r.path(filepath.Join(privateDir, "tmp")) }

// confine changes cmd so that it is confined, and returns a function that is called after its
// start.
func (d *Driver) confine(r revision, cmd *exec.Cmd, wanted agent.Deployment) (started func(), err error) {
	if err := r.makeDirectories(); err != nil {
		return nil, clean("create directory of deployment", err)
	}

	user, err := d.assign(r)
	if err != nil {
		return nil, clean("give the deployment its user id", err)
	}

	limits := sandbox.Limits{Memory: uint64(wanted.Bytes()), Processes: uint64(wanted.Processes)} // neither is negative
	box, err := sandbox.New(d.policy(r, user, limits))
	if err != nil {
		return nil, clean("confine the runtime", err)
	}

	cmd.Env = cmd.Environ() // without duplicates
	c, err := box.Confine(cmd)
	if err != nil {
		box.Close()
		return nil, clean("confine the runtime", err)
	}

	cmd.Env = append(cmd.Env, "HOME="+r.of.path(homeDir), r.mark()) // by which a launcher whose state is lost is found
	cmd.SysProcAttr = ownSession(cmd.SysProcAttr)
	return func() {
		c.Started()
		box.Close()
	}, nil
}

// Unconfined returns what does not separate the deployments from each other and from the hub, and
// why. It is empty if everything is in force.
func (d *Driver) Unconfined() string { return d.unconfined }

// probePrefix begins the names of directories in which New tries what the system can do.
const probePrefix = ".probe-"

// probe finds out how deployments can be separated on this system.
func (d *Driver) probe() error {
	dir, err := os.MkdirTemp(d.cfg.Dir, probePrefix)
	if err != nil {
		return err
	}

	f := folder{root: d.cfg.Dir, dir: dir}
	trial := revision{folder: f, of: f}
	defer func() { _ = deeptree.Remove(dir) }() // a later start deletes what remains
	if err := trial.makeDirectories(); err != nil {
		return err
	}

	reason, err := d.probeUsers(trial)
	if err != nil {
		return err
	}

	d.users = d.cfg.Users[0] != 0 && reason == ""
	user := 0
	if d.users {
		user = d.cfg.Users[0]
	}

	box, err := sandbox.New(d.policy(trial, user, sandbox.Limits{Memory: 1 << 30, Processes: 1000}))
	if err != nil {
		return err
	}
	defer box.Close()
	d.limits = box.Support()
	var reasons []string
	switch support := box.Support(); {
	case !support.Files:
		reasons = append(reasons, "a runtime can read and change what the user of the hub can: "+support.Reason)
	case !support.Isolated:
		what := "a runtime sees the names of files and the arguments of processes of this machine"
		if !d.users {
			what += ", and can change the modes of the hub's files"
		}

		reasons = append(reasons, what+": "+support.Reason)
	}

	if reason != "" {
		reasons = append(reasons, "runtimes have the user id of the hub: "+reason)
	}

	d.unconfined = strings.Join(reasons, "; ")
	return nil
}
