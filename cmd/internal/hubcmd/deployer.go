package hubcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/process"
	"github.com/seed93082962/agenthost/hub/gateway/apisix"
	"github.com/seed93082962/agenthost/hub/gateway/kong"
	"github.com/seed93082962/agenthost/internal/pattern"
)

// Values of DEPLOYER.
const (
	deployProcess    = "process"
	deployDocker     = "docker"
	deployKubernetes = "kubernetes"
	deployNone       = "none"
)

// deploymentsDir is the directory of process deployments in that of the data.
const deploymentsDir = "deployments"

// checkDeployer checks the settings of deployments.
func (s *Settings) checkDeployer() {
	switch s.Deployer {
	case deployDocker:
		s.platform(s.drivers.Docker)
	case deployKubernetes:
		s.platform(s.drivers.Kubernetes)
		if s.DockerHost != "" { // with which it stops former containers
			s.platform(s.drivers.Docker)
		}
	}

	if s.Replicas > 1 && s.Deployer != deployKubernetes {
		s.Fault(&s.Replicas, "several replicas require DEPLOYER=kubernetes")
	}

	all := s.hidden()
	for _, list := range []*daemon.List{&s.SandboxRead, &s.SandboxWrite} {
		for _, path := range *list {
			if !filepath.IsAbs(path) {
				s.Fault(list, "%q is not an absolute path", path)
			}

			for _, hidden := range all {
				if contains(path, hidden) {
					s.Fault(list, "%s contains %s, where the hub has data or a secret", path, hidden)
				}
			}
		}
	}
}

// checkGateway checks the settings of the gateway.
func (s *Settings) checkGateway() {
	admin, routes := s.GatewayAdmin != "" || s.GatewayKey != "", s.GatewayKind == gatewayHTTPRoute
	u, err := url.Parse(string(s.GatewayURL))
	switch {
	case s.GatewayKind == "" && admin:
		s.Fault(&s.GatewayKind, "GATEWAY_ADMIN_URL and GATEWAY_ADMIN_KEY have no effect without it: set it to kong or apisix")
	case s.GatewayKind == "":
	case s.Deployer == deployNone:
		s.Fault(&s.GatewayKind, "it has no effect with DEPLOYER=none: omit it, or choose a deployer")
	case routes && s.Deployer != deployKubernetes:
		s.Fault(&s.GatewayKind, "httproute requires DEPLOYER=kubernetes")
	case routes && (s.GatewayURL == "" || s.GatewayParent == ""):
		s.Fault(&s.GatewayKind, "httproute requires GATEWAY_URL and GATEWAY_PARENT")
	case routes && admin:
		s.Fault(&s.GatewayKind, "GATEWAY_ADMIN_URL and GATEWAY_ADMIN_KEY have no effect with httproute: omit them")
	case !routes && (s.GatewayURL == "" || s.GatewayAdmin == ""):
		s.Fault(&s.GatewayKind, "it requires GATEWAY_URL and GATEWAY_ADMIN_URL")
	case err != nil || u.Path != "":
		s.Fault(&s.GatewayURL, "it has a path: with GATEWAY_KIND, the routes begin at the root of its host")
	case routes:
		s.gatewayParent()
	}
}

// Values of GATEWAY_KIND.
const (
	gatewayKong      = "kong"
	gatewayAPISIX    = "apisix"
	gatewayHTTPRoute = "httproute"
)

// gateway returns the gateway whose routes the hub changes, or nil. Routes of the Gateway API are
// those of a driver.
func (s *Settings) gateway(driver deploy.Driver) (deploy.Gateway, error) {
	switch s.GatewayKind {
	case gatewayHTTPRoute:
		cluster, ok := driver.(interface {
			Gateway(namespace, name, listener string) (deploy.Gateway, error)
		})
		if !ok {
			return nil, errors.New("the deployer is not that of Kubernetes")
		}

		parent := s.gatewayParent()
		return cluster.Gateway(parent[0], parent[1], parent[2])
	case gatewayKong:
		return kong.New(kong.Config{AdminURL: string(s.GatewayAdmin), AdminKey: s.GatewayKey})
	case gatewayAPISIX:
		return apisix.New(apisix.Config{AdminURL: string(s.GatewayAdmin), AdminKey: s.GatewayKey})
	}

	return nil, nil
}

// objectName is the form of the names in GATEWAY_PARENT.
var objectName = pattern.Compile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// gatewayParent returns the namespace, the name and the listener of GATEWAY_PARENT.
func (s *Settings) gatewayParent() [3]string {
	parts := append(strings.Split(s.GatewayParent, "/"), "")
	names := parts[:len(parts)-1]
	if len(names) < 2 || len(names) > 3 || slices.ContainsFunc(names, func(part string) bool { return !objectName().MatchString(part) }) {
		s.Fault(&s.GatewayParent, "%q is not NAMESPACE/NAME of a Gateway, or NAMESPACE/NAME/LISTENER", s.GatewayParent)
		return [3]string{}
	}

	return [3]string(parts)
}

// hidden returns where the hub stores data, and the files of its secrets. No setting may permit
// deployments to access them.
func (s *Settings) hidden() []string {
	paths := append([]string{s.DataDir, string(s.Config)}, s.Secrets...)
	if path := s.databaseFile(); path != "" {
		paths = append(paths, path, path+"-wal", path+"-shm", path+"-journal")
	}

	if path, ok := strings.CutPrefix(s.BlobURL, "file://"); ok {
		paths = append(paths, path)
	}

	var all []string
	for _, path := range paths {
		if path == "" {
			continue
		}

		absolute, err := filepath.Abs(path)
		s.Invalid(&s.DataDir, err) // there is no current directory
		all = append(all, absolute)
	}

	return all
}

// contains reports whether a path is dir or inside dir, with links resolved where they exist.
func contains(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if target, err := filepath.EvalSymlinks(*p); err == nil {
			*p = target
		}
	}

	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// machine identifies a data directory on this machine: its processes are not those of a copy on
// another one. A system without an id is identified by the directory.
func machine(storageID string) string {
	id, _ := os.ReadFile("/etc/machine-id") // a container may have none
	sum := sha256.Sum256([]byte("agenthost " + strings.TrimSpace(string(id)) + " " + storageID))
	return hex.EncodeToString(sum[:16])
}

// runtimeEnv names the variables of the hub that its runtimes have too. None of them contains a
// key.
const runtimeEnv = "AGENT_LOG_LEVEL PATH USER LANG TZ TMPDIR HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR " + traceEnv

// traceEnv names the variables of traces without OTEL_SERVICE_NAME, which is that of the hub, and
// the headers, which may have a key: they are a secret.
const traceEnv = "OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_TRACES_ENDPOINT OTEL_EXPORTER_OTLP_TIMEOUT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_TRACES_EXPORTER " +
	"OTEL_SDK_DISABLED OTEL_TRACES_SAMPLER OTEL_TRACES_SAMPLER_ARG OTEL_RESOURCE_ATTRIBUTES OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// localEnv returns the variables that a local hub reads.
func localEnv() map[string]bool {
	names := map[string]bool{"HOME": true}
	for name := range strings.FieldsSeq(runtimeEnv) {
		names[name] = true
	}

	return names
}

// unlimited is the warning of bounds that the process deployer does not enforce.
const unlimited = "agents without deployment settings have no limit in spite of DEPLOYER_MEMORY, DEPLOYER_CPU, DEPLOYER_PROCESSES and deployer.max"

// deployer returns the driver of deployments, or nil.
func (s *Settings) deployer(log *slog.Logger) (deploy.Driver, error) {
	switch s.Deployer {
	case deployNone:
		return nil, nil
	case deployDocker:
		return s.platform(s.drivers.Docker)(log)
	case deployKubernetes:
		return s.platform(s.drivers.Kubernetes)(log)
	}

	driver, err := s.processes(filepath.Join(s.DataDir, deploymentsDir))
	if errors.Is(err, errors.ErrUnsupported) {
		log.Warn("agents cannot be deployed on this system", "err", err)
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	if reason := driver.Unconfined(); reason != "" {
		log.Warn("process deployments are not completely isolated", "err", reason)
	}

	if reason := driver.Unlimited(); reason != "" {
		log.Warn(unlimited, "err", reason)
	}

	return driver, nil
}

// former returns the driver of the platform on which a hub with another deployer may have left
// runtimes, or nil. A hub of a cluster stops containers if it has the address of their engine.
func (s *Settings) former(log *slog.Logger) (deploy.Driver, error) {
	switch {
	case s.Deployer == deployKubernetes && s.DockerHost != "":
		return s.platform(s.drivers.Docker)(log)
	case s.Deployer == deployDocker || s.Deployer == deployKubernetes:
		return s.formerProcesses(log)
	}

	return nil, nil //nolint:nilnil // there is none
}

// formerProcesses returns the driver of deployments that a hub with DEPLOYER=process has left, or
// nil.
func (s *Settings) formerProcesses(log *slog.Logger) (deploy.Driver, error) {
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

// processes returns the driver of DEPLOYER=process with the deployments in a directory.
func (s *Settings) processes(dir string) (*process.Driver, error) {
	var env []string
	for name := range strings.FieldsSeq(runtimeEnv) {
		if value := s.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}

	read := slices.Clone(s.SandboxRead)
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		for _, path := range filepath.SplitList(s.Getenv(name)) {
			if filepath.IsAbs(path) {
				read = append(read, path)
			}
		}
	}

	return process.New(process.Config{
		Dir: dir, Env: env, Default: s.DefaultDeployment(), Secrets: s.TraceSecrets(), Home: s.Getenv("HOME"),
		Hidden: s.hidden(), Read: read, Write: s.SandboxWrite, Users: s.SandboxUsers,
	})
}
