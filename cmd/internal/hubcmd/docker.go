package hubcmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
	"github.com/seed93082962/agenthost/hub/deploy/process"
	"github.com/seed93082962/agenthost/internal/pattern"
)

// shownEnv names the variables of the hub that its containers have too. The platform shows them.
const shownEnv = "AGENT_LOG_LEVEL LANG TZ HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy"

// dockerConfig returns the configuration of DEPLOYER=docker. It adds the faults of its settings.
func (s *settings) dockerConfig() docker.Config {
	cfg := docker.Config{
		Host: cmp.Or(s.DockerHost, "unix:///var/run/docker.sock"), Image: s.Image, Subnets: s.DockerSubnets, Default: s.defaultDeployment(),
		HubContainer: s.DockerHub, Env: s.containerEnv("every user of the Docker engine would see in the containers"),
	}
	switch {
	case !s.DockerTLS && s.DockerCerts != "":
		s.Fault(&s.DockerCerts, "any server could pretend to be the Docker engine: set DOCKER_TLS_VERIFY=1")
	case s.DockerTLS && !strings.HasPrefix(cfg.Host, "tcp://"):
		s.Fault(&s.DockerTLS, "DOCKER_HOST does not begin with tcp://")
	case s.DockerTLS: // as the command docker finds it
		cfg.CertDir = cmp.Or(s.DockerCerts, filepath.Join(s.getenv("HOME"), ".docker"))
	}

	switch s.DockerHub {
	case "none":
		cfg.HubContainer = ""
	case "":
		cfg.HubContainer = ownContainer()
		cfg.HubDetected = true
	}

	return cfg
}

// containerEnv returns the environment of containers. who sees it is part of a fault.
func (s *settings) containerEnv(who string) []string {
	var env []string
	for name := range strings.FieldsSeq(shownEnv) {
		value := s.getenv(name)
		if value == "" {
			continue
		}

		if strings.Contains(strings.ToLower(name), "http") && hasPassword(value) {
			s.Fault(&s.Deployer, "%s has a password, which %s: use a proxy without one", name, who)
		}

		env = append(env, name+"="+value)
	}

	return env
}

// Where a container has its id: the engine mounts files from a directory with that name, and
// without a namespace of control groups, theirs have it. A container without a name has a part as
// its host name.
var (
	mountedID = pattern.Compile(`/([0-9a-f]{64})/(?:hostname|hosts|resolv\.conf) /etc/(?:hostname|hosts|resolv\.conf) `)
	groupID   = pattern.Compile(`(?m)^\d+:[^\n]*[/-]([0-9a-f]{64})(?:\.scope)?$`)
	shortID   = pattern.Compile(`^([0-9a-f]{12})$`)
)

// ownContainer returns the id of the container in which the hub runs, or "".
func ownContainer() string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // other systems have none
	groups, _ := os.ReadFile("/proc/self/cgroup")
	name, _ := os.Hostname()
	if _, err := os.Stat("/.dockerenv"); err != nil {
		name = ""
	}

	return containerID(mounts, groups, name)
}

func containerID(mounts, groups []byte, name string) string {
	for _, m := range [][][]byte{mountedID().FindSubmatch(mounts), groupID().FindSubmatch(groups), shortID().FindSubmatch([]byte(name))} {
		if m != nil {
			return string(m[1])
		}
	}

	return ""
}

// hasPassword reports whether the address of a proxy may contain a password.
func hasPassword(proxy string) bool {
	u, err := url.Parse(proxy)
	return err != nil || u.User != nil || strings.Contains(proxy, "@")
}

// former returns the driver of the platform on which a hub with another deployer may have left
// runtimes, or nil. A hub of a cluster stops containers if it has the address of their engine.
func (s *settings) former(log *slog.Logger) (deploy.Driver, error) {
	switch {
	case s.Deployer == deployKubernetes && s.DockerHost != "":
		return s.docker(log)
	case s.Deployer == deployDocker || s.Deployer == deployKubernetes:
		return s.formerProcesses(log)
	}

	return nil, nil //nolint:nilnil // there is none
}

// formerProcesses returns the driver of deployments that a hub with DEPLOYER=process has left, or
// nil.
func (s *settings) formerProcesses(log *slog.Logger) (deploy.Driver, error) {
	dir := filepath.Join(s.DataDir, deploymentsDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // there are none
	}

	if left := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }); len(left) > 0 {
		log.Warn("files of agents that were processes remain: when their processes have ended, copy what is needed, and delete the directory",
			"file", dir, "entries", len(left))
	}

	driver, err := process.New(process.Config{Dir: dir})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil //nolint:nilnil // there are none
	}

	if err != nil {
		return nil, err
	}

	return driver, nil
}

// docker returns the driver of DEPLOYER=docker.
func (s *settings) docker(log *slog.Logger) (deploy.Driver, error) {
	cfg := s.dockerConfig()
	if addr, err := net.ResolveTCPAddr("tcp", s.Addr); err == nil && addr.IP.IsUnspecified() && cfg.HubContainer == "" {
		log.Warn("the containers of agents reach this address through the gateway of their network: listen on one address, such as a loopback address",
			"addr", s.Addr)
	}

	traces := s.containerTraces(log)
	cfg.Env, cfg.Secrets = append(cfg.Env, traces.env...), traces.secrets
	driver, err := docker.New(cfg)
	if err != nil {
		return nil, err
	}

	err = driver.Check(context.Background())
	if errors.Is(err, deploy.ErrUnavailable) {
		log.Warn("agents cannot be deployed until the Docker engine responds", "err", err)
		return driver, nil
	}

	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}

	return driver, nil
}
