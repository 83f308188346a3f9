package drivers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
	"github.com/seed93082962/agenthost/internal/pattern"
)

// shownEnv names the variables of the hub that its containers have too. The platform shows them.
const shownEnv = "AGENT_LOG_LEVEL LANG TZ HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy"

// dockerConfig returns the configuration of DEPLOYER=docker. It adds the faults of its settings.
func dockerConfig(s *hubcmd.Settings) docker.Config {
	cfg := docker.Config{
		Host: cmp.Or(s.DockerHost, "unix:///var/run/docker.sock"), Image: s.Image, Subnets: s.DockerSubnets, Default: s.DefaultDeployment(),
		HubContainer: s.DockerHub, Env: containerEnv(s, "every user of the Docker engine would see in the containers"),
	}
	switch {
	case !s.DockerTLS && s.DockerCerts != "":
		s.Fault(&s.DockerCerts, "any server could pretend to be the Docker engine: set DOCKER_TLS_VERIFY=1")
	case s.DockerTLS && !strings.HasPrefix(cfg.Host, "tcp://"):
		s.Fault(&s.DockerTLS, "DOCKER_HOST does not begin with tcp://")
	case s.DockerTLS: // as the command docker finds it
		cfg.CertDir = cmp.Or(s.DockerCerts, filepath.Join(s.Getenv("HOME"), ".docker"))
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
func containerEnv(s *hubcmd.Settings, who string) []string {
	var env []string
	for name := range strings.FieldsSeq(shownEnv) {
		value := s.Getenv(name)
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

// openDocker prepares the driver of DEPLOYER=docker.
func openDocker(s *hubcmd.Settings) hubcmd.OpenDeployer {
	cfg := dockerConfig(s)
	return func(log *slog.Logger) (deploy.Driver, error) {
		if addr, err := net.ResolveTCPAddr("tcp", s.Addr); err == nil && addr.IP.IsUnspecified() && cfg.HubContainer == "" {
			log.Warn("the containers of agents reach this address through the gateway of their network: listen on one address, such as a loopback address",
				"addr", s.Addr)
		}

		traces := containerTracesOf(s, log)
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
}
