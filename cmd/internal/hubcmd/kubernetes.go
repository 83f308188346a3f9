package hubcmd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// maxReplicas bounds KUBERNETES_REPLICAS.
const maxReplicas = 100

// kubernetesConfig parses the settings of DEPLOYER=kubernetes.
func (s *settings) kubernetesConfig() (cfg kubernetes.Config, err error) {
	cfg = kubernetes.Config{
		Namespace: s.KubeNamespace, Image: s.KubeImage, Memory: s.KubeMemory, CPUs: s.KubeCPUs, Scratch: s.KubeScratch,
		RuntimeClass: s.KubeClass, StorageSize: s.KubeStorage, StorageClass: s.KubeStorageClass,
	}
	if cfg.Namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if cfg.Namespace = strings.TrimSpace(string(text)); err != nil || cfg.Namespace == "" {
			return cfg, errors.New("KUBERNETES_NAMESPACE is required: the hub is not a pod, whose namespace would be the default")
		}
	}
	if cfg.Replicas, err = s.replicas(); err != nil {
		return cfg, err
	}
	if cfg.Bus, err = s.bus(); err != nil {
		return cfg, err
	}
	if cfg.Replicas > 1 && cfg.Bus == nil {
		return cfg, errors.New("KUBERNETES_REPLICAS: several pods of a runtime require AGENT_BUS_URL, because a cancel would not reach the pod that has the run")
	}
	for text := range strings.FieldsFuncSeq(s.KubeInternal, func(r rune) bool { return r == ',' || r == ' ' }) {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return cfg, fmt.Errorf("KUBERNETES_INTERNAL_NETWORKS: %q is not a network such as 10.0.0.0/8", text)
		}
		cfg.Internal = append(cfg.Internal, network)
	}
	switch s.KubeAddress {
	case "service":
	case "pod":
		cfg.PodAddress = true
	default:
		return cfg, fmt.Errorf("KUBERNETES_ADDRESS: %q is neither service nor pod", s.KubeAddress)
	}
	if cfg.Env, err = s.containerEnv("every user of the namespace would see in the pods"); err != nil {
		return cfg, err
	}
	if s.Kubeconfig != "" {
		cfg.REST, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	} else {
		cfg.REST, err = rest.InClusterConfig()
	}
	if err != nil {
		return cfg, fmt.Errorf("KUBECONFIG: %w", err)
	}
	return cfg, nil
}

// replicas parses KUBERNETES_REPLICAS.
func (s *settings) replicas() (int64, error) {
	n, err := strconv.ParseInt(s.KubeReplicas, 10, 64)
	if err != nil || n < 1 || n > maxReplicas {
		return 0, fmt.Errorf("KUBERNETES_REPLICAS: %q is not a number from 1 to %d", s.KubeReplicas, maxReplicas)
	}
	return n, nil
}

// kubernetes returns the driver of DEPLOYER=kubernetes.
func (s *settings) kubernetes(log *slog.Logger) (deploy.Driver, error) {
	cfg, err := s.kubernetesConfig()
	if err != nil {
		return nil, err
	}
	traces := s.containerTraces(log)
	cfg.Env, cfg.Secrets, cfg.Collector = append(cfg.Env, traces.env...), traces.secrets, traces.receiver
	cfg.Metrics = s.MetricsAddr != ""
	klog.SetSlogLogger(log)
	return kubernetes.New(cfg)
}

// checkHTTPRoute checks the settings of GATEWAY_KIND=httproute.
func (s *settings) checkHTTPRoute() error {
	switch {
	case s.Deployer != deployKubernetes:
		return errors.New("GATEWAY_KIND=httproute requires DEPLOYER=kubernetes")
	case s.GatewayURL == "" || s.GatewayParent == "":
		return errors.New("GATEWAY_KIND=httproute requires GATEWAY_URL and GATEWAY_PARENT")
	case s.GatewayAdmin != "" || s.GatewayKey != "":
		return errors.New("GATEWAY_ADMIN_URL and GATEWAY_ADMIN_KEY have no effect with GATEWAY_KIND=httproute: omit them")
	}
	_, err := s.gatewayParent()
	return err
}

// objectName is the form of the names in GATEWAY_PARENT.
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// gatewayParent parses GATEWAY_PARENT.
func (s *settings) gatewayParent() (cfg kubernetes.GatewayConfig, err error) {
	parts := strings.Split(s.GatewayParent, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.ContainsFunc(parts, func(part string) bool { return !objectName.MatchString(part) }) {
		return cfg, fmt.Errorf("GATEWAY_PARENT: %q is not NAMESPACE/NAME of a Gateway, or NAMESPACE/NAME/LISTENER", s.GatewayParent)
	}
	cfg.Namespace, cfg.Name = parts[0], parts[1]
	if len(parts) == 3 {
		cfg.Listener = parts[2]
	}
	return cfg, nil
}

// httpRoutes returns the gateway of GATEWAY_KIND=httproute.
func (s *settings) httpRoutes(driver deploy.Driver) (deploy.Gateway, error) {
	cfg, err := s.gatewayParent()
	if err != nil {
		return nil, err
	}
	cluster, ok := driver.(*kubernetes.Driver)
	if !ok {
		return nil, errors.New("GATEWAY_KIND=httproute requires DEPLOYER=kubernetes")
	}
	return cluster.Gateway(cfg)
}
