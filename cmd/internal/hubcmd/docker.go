package hubcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
	"github.com/seed93082962/agenthost/hub/deploy/process"
)

// shownEnv names the variables of the hub that its containers have too. The platform shows them.
const shownEnv = "AGENT_LOG_LEVEL LANG TZ HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy"

// dockerConfig parses the settings of DEPLOYER=docker.
func (s *settings) dockerConfig() (cfg docker.Config, err error) {
	cfg = docker.Config{Host: s.DockerHost, Image: s.DockerImage}
	if cfg.CertDir, err = s.certDir(); err != nil {
		return cfg, err
	}
	for text := range strings.FieldsFuncSeq(s.DockerSubnets, func(r rune) bool { return r == ',' || r == ' ' }) {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			return cfg, fmt.Errorf("DOCKER_SUBNETS: %q is not a network such as 10.213.0.0/16", text)
		}
		cfg.Subnets = append(cfg.Subnets, subnet)
	}
	megabytes, err := strconv.ParseInt(s.DockerMemory, 10, 64)
	if err != nil || megabytes < 32 || megabytes > 1<<24 {
		return cfg, fmt.Errorf("DOCKER_MEMORY: %q is not a number of MiB from 32 to %d", s.DockerMemory, 1<<24)
	}
	cfg.Memory = megabytes << 20
	if cfg.CPUs, err = strconv.ParseFloat(s.DockerCPUs, 64); err != nil || !(cfg.CPUs >= 0.01 && cfg.CPUs <= 1024) {
		return cfg, fmt.Errorf("DOCKER_CPUS: %q is not a number from 0.01 to 1024", s.DockerCPUs)
	}
	if cfg.Processes, err = strconv.ParseInt(s.DockerTasks, 10, 64); err != nil || cfg.Processes < 16 || cfg.Processes > math.MaxInt32 {
		return cfg, fmt.Errorf("DOCKER_PROCESSES: %q is not a number of at least 16", s.DockerTasks)
	}
	if cfg.Env, err = s.containerEnv("every user of the Docker engine would see in the containers"); err != nil {
		return cfg, err
	}
	cfg.HubContainer = s.DockerHub
	switch s.DockerHub {
	case "none":
		cfg.HubContainer = ""
	case "":
		cfg.HubContainer = ownContainer()
		cfg.HubDetected = true
	}
	return cfg, nil
}

// containerEnv returns the environment of containers. who sees it is part of an error.
func (s *settings) containerEnv(who string) (env []string, err error) {
	for name := range strings.FieldsSeq(shownEnv) {
		value := s.getenv(name)
		if value == "" {
			continue
		}
		if strings.Contains(strings.ToLower(name), "http") && hasPassword(value) {
			return nil, fmt.Errorf("%s: it has a password, which %s: use a proxy without one", name, who)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// certDir returns the directory of the certificates for the engine, as the command docker finds it,
// or "".
func (s *settings) certDir() (string, error) {
	switch {
	case s.DockerTLS == "" && s.DockerCerts == "":
		return "", nil
	case s.DockerTLS == "":
		return "", errors.New("DOCKER_CERT_PATH without DOCKER_TLS_VERIFY: any server could pretend to be the Docker engine: set DOCKER_TLS_VERIFY=1")
	case !strings.HasPrefix(s.DockerHost, "tcp://"):
		return "", errors.New("DOCKER_TLS_VERIFY: DOCKER_HOST does not begin with tcp://")
	case s.DockerCerts != "":
		return s.DockerCerts, nil
	}
	return filepath.Join(s.getenv("HOME"), ".docker"), nil
}

// Where a container has its id: the engine mounts files from a directory with that name, and
// without a namespace of control groups, theirs have it. A container without a name has a part as
// its host name.
var (
	mountedID = regexp.MustCompile(`/([0-9a-f]{64})/(?:hostname|hosts|resolv\.conf) /etc/(?:hostname|hosts|resolv\.conf) `)
	groupID   = regexp.MustCompile(`(?m)^\d+:[^\n]*[/-]([0-9a-f]{64})(?:\.scope)?$`)
	shortID   = regexp.MustCompile(`^([0-9a-f]{12})$`)
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
	for _, m := range [][][]byte{mountedID.FindSubmatch(mounts), groupID.FindSubmatch(groups), shortID.FindSubmatch([]byte(name))} {
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
	case s.Deployer == deployKubernetes && s.getenv("DOCKER_HOST") != "":
		return s.docker(log)
	case s.Deployer == deployDocker || s.Deployer == deployKubernetes:
		return s.formerProcesses(log)
	}
	return nil, nil //nolint:nilnil // there is none
}

// formerProcesses returns the driver of deployments that a hub with DEPLOYER=process has left, or
// nil.
func (s *settings) formerProcesses(log *slog.Logger) (deploy.Driver, error) {
	dir := filepath.Join(s.DataDir, "deployments")
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
	cfg, err := s.dockerConfig()
	if err != nil {
		return nil, err
	}
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
