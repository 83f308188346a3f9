package hubcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
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

// Bounds of DEPLOYER_LEASE_TIME. A hub renews its leases six times in that time.
const (
	minLease = 500 * time.Millisecond
	maxLease = time.Hour
)

// maxPrepare bounds DEPLOYER_PREPARE_TIMEOUT.
const maxPrepare = 24 * time.Hour

// checkDeployer returns an error with all settings of deployments that are invalid.
func (s *settings) checkDeployer() error {
	var errs []error
	switch s.Deployer {
	case deployProcess, deployNone:
	case deployDocker:
		_, err := s.dockerConfig()
		errs = append(errs, err)
	case deployKubernetes:
		_, err := s.kubernetesConfig()
		errs = append(errs, err)
	default:
		errs = append(errs, fmt.Errorf("DEPLOYER: %q is not a deployer of this version; use process, docker, kubernetes or none", s.Deployer))
	}
	if s.LeaseTime < minLease || s.LeaseTime > maxLease {
		errs = append(errs, fmt.Errorf("DEPLOYER_LEASE_TIME: %v is not from %v to %v", s.LeaseTime, minLease, maxLease))
	}
	if s.PrepareTimeout < time.Second || s.PrepareTimeout > maxPrepare {
		errs = append(errs, fmt.Errorf("DEPLOYER_PREPARE_TIMEOUT: %v is not from 1s to %v", s.PrepareTimeout, maxPrepare))
	}
	for _, setting := range []struct{ name, list string }{{"HUB_SANDBOX_READ", s.SandboxRead}, {"HUB_SANDBOX_WRITE", s.SandboxWrite}} {
		for _, path := range filepath.SplitList(setting.list) {
			if !filepath.IsAbs(path) {
				errs = append(errs, fmt.Errorf("%s: %q is not an absolute path", setting.name, path))
			}
		}
	}
	_, err := s.users()
	errs = append(errs, err)
	if errors.Join(errs...) == nil { // the bounds need the settings of the deployer
		_, err = s.maxDeployment()
		errs = append(errs, err)
	}
	if s.KeyVisible != "" && s.KeyVisible != "true" && s.KeyVisible != "false" {
		errs = append(errs, fmt.Errorf("RUNTIME_APIKEY_VISIBLE_TO_MEMBER: %q is neither true nor false", s.KeyVisible))
	}
	return errors.Join(append(errs, s.checkGateway())...)
}

// checkGateway checks the settings of the gateway.
func (s *settings) checkGateway() error {
	if err := errors.Join(checkBase("GATEWAY_URL", s.GatewayURL), checkBase("GATEWAY_ADMIN_URL", s.GatewayAdmin)); err != nil {
		return err
	}
	switch {
	case s.GatewayKind == "" && (s.GatewayAdmin != "" || s.GatewayKey != ""):
		return errors.New("GATEWAY_ADMIN_URL and GATEWAY_ADMIN_KEY have no effect without GATEWAY_KIND: set it to kong or apisix")
	case s.GatewayKind == "":
		return nil
	case !slices.Contains([]string{gatewayKong, gatewayAPISIX, gatewayHTTPRoute}, s.GatewayKind):
		return fmt.Errorf("GATEWAY_KIND: %q is not a gateway of this version; use kong, apisix or httproute", s.GatewayKind)
	case s.Deployer == deployNone:
		return errors.New("GATEWAY_KIND has no effect with DEPLOYER=none: omit it, or choose a deployer")
	case s.GatewayKind == gatewayHTTPRoute:
		if err := s.checkHTTPRoute(); err != nil {
			return err
		}
	case s.GatewayURL == "" || s.GatewayAdmin == "":
		return errors.New("GATEWAY_KIND requires GATEWAY_URL and GATEWAY_ADMIN_URL")
	}
	if u, err := url.Parse(s.GatewayURL); err != nil || strings.Trim(u.Path, "/") != "" {
		return errors.New("GATEWAY_URL has a path: with GATEWAY_KIND, the routes begin at the root of its host")
	}
	return nil
}

// checkBase returns an error for a value that is not a base URL. An empty one is a default.
func checkBase(name, value string) error {
	u, err := url.Parse(value)
	if value == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	return errors.New(name + " is not a base URL: use http:// or https://, a host, and no query")
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
		return s.httpRoutes(driver)
	case gatewayKong:
		return kong.New(kong.Config{AdminURL: s.GatewayAdmin, AdminKey: s.GatewayKey})
	case gatewayAPISIX:
		return apisix.New(apisix.Config{AdminURL: s.GatewayAdmin, AdminKey: s.GatewayKey})
	}
	return nil, nil
}

// users returns the user ids of deployments.
func (s *settings) users() (process.Users, error) {
	if s.SandboxUsers == "none" {
		return process.Users{}, nil
	}
	users, err := process.ParseUsers(s.SandboxUsers)
	if err != nil {
		return users, fmt.Errorf("HUB_SANDBOX_USERS: %w", err)
	}
	return users, nil
}

// hidden returns where the hub stores data, and the files of its secrets. No setting may permit
// deployments to access them.
func (s *settings) hidden() (paths []string, err error) {
	paths = append([]string{s.DataDir}, s.secretFiles...)
	if path := s.databaseFile(); path != "" {
		paths = append(paths, path, path+"-wal", path+"-shm", path+"-journal")
	}
	if path, ok := strings.CutPrefix(s.BlobURL, "file://"); ok {
		paths = append(paths, path)
	}
	for i, path := range paths {
		if paths[i], err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("find the files of the hub: %w", err)
		}
	}
	for name, list := range map[string]string{"HUB_SANDBOX_READ": s.SandboxRead, "HUB_SANDBOX_WRITE": s.SandboxWrite} {
		for _, permitted := range filepath.SplitList(list) {
			for _, path := range paths {
				if contains(permitted, path) {
					return nil, fmt.Errorf("%s: %s contains %s, where the hub has data or a secret", name, permitted, path)
				}
			}
		}
	}
	return paths, nil
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
const unlimited = "agents without deployment settings have no limit in spite of DEPLOYER_*_MAX"

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
	driver, err := s.processes(filepath.Join(s.DataDir, "deployments"))
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
	users, err := s.users()
	if err != nil {
		return nil, err
	}
	read := filepath.SplitList(s.SandboxRead)
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		for _, path := range filepath.SplitList(s.getenv(name)) {
			if filepath.IsAbs(path) {
				read = append(read, path)
			}
		}
	}
	hidden, err := s.hidden()
	if err != nil {
		return nil, err
	}
	most, err := s.maxDeployment()
	if err != nil {
		return nil, err
	}
	return process.New(process.Config{
		Default: most,
		Dir:     dir, Env: env,
		Secrets: s.traceSecrets(), Home: s.getenv("HOME"), Hidden: hidden, Read: read, Write: filepath.SplitList(s.SandboxWrite), Users: users,
	})
}
