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
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/hub/deploy/process"
	"github.com/seed93082962/agenthost/hub/gateway/apisix"
	"github.com/seed93082962/agenthost/hub/gateway/kong"
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
func (s *settings) checkDeployer() {
	switch s.Deployer {
	case deployDocker:
		s.dockerConfig()
	case deployKubernetes:
		s.kubernetesConfig()
		if s.DockerHost != "" { // with which it stops former containers
			s.dockerConfig()
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
func (s *settings) checkGateway() {
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
func (s *settings) gateway(driver deploy.Driver) (deploy.Gateway, error) {
	switch s.GatewayKind {
	case gatewayHTTPRoute:
		cluster, ok := driver.(*kubernetes.Driver)
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

// hidden returns where the hub stores data, and the files of its secrets. No setting may permit
// deployments to access them.
func (s *settings) hidden() []string {
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
func (s *settings) deployer(log *slog.Logger) (deploy.Driver, error) {
	switch s.Deployer {
	case deployNone:
		return nil, nil
	case deployDocker:
		return s.docker(log)
	case deployKubernetes:
		return s.kubernetes(log)
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

// processes returns the driver of DEPLOYER=process with the deployments in a directory.
func (s *settings) processes(dir string) (*process.Driver, error) {
	var env []string
	for name := range strings.FieldsSeq(runtimeEnv) {
		if value := s.getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}

	read := slices.Clone(s.SandboxRead)
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		for _, path := range filepath.SplitList(s.getenv(name)) {
			if filepath.IsAbs(path) {
				read = append(read, path)
			}
		}
	}

	return process.New(process.Config{
		Dir: dir, Env: env, Default: s.defaultDeployment(), Secrets: s.traceSecrets(), Home: s.getenv("HOME"),
		Hidden: s.hidden(), Read: read, Write: s.SandboxWrite, Users: s.SandboxUsers,
	})
}
