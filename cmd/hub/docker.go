package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
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
		if _, err := os.Stat("/.dockerenv"); err == nil {
			if cfg.HubContainer, err = os.Hostname(); err != nil {
				return cfg, errors.New("DOCKER_HUB_CONTAINER is required: this container has no name")
			}
		}
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

// hasPassword reports whether the address of a proxy may contain a password.
func hasPassword(proxy string) bool {
	u, err := url.Parse(proxy)
	return err != nil || u.User != nil || strings.Contains(proxy, "@")
}

// formerProcesses returns the driver of deployments that a hub with DEPLOYER=process has left, or
// nil.
func (s *settings) formerProcesses() (deploy.Driver, error) {
	dir := filepath.Join(s.DataDir, "deployments")
	if _, err := os.Stat(dir); err != nil {
		return nil, nil //nolint:nilerr,nilnil // there are none
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
	return docker.New(cfg)
}
