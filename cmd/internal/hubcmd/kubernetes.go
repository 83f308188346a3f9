package hubcmd

import (
	"log/slog"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/internal/pattern"
)

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// kubernetesConfig returns the configuration of DEPLOYER=kubernetes. It adds the faults of its
// settings.
func (s *settings) kubernetesConfig() kubernetes.Config {
	cfg := kubernetes.Config{
		Namespace: s.KubeNamespace, Image: s.Image, Default: s.defaultDeployment(), Scratch: string(s.KubeScratch),
		RuntimeClass: s.KubeClass, StorageSize: string(s.KubeStorage), StorageClass: s.KubeStorageClass,
		Internal: s.KubeInternal, PodAddress: s.KubeAddress == "pod", Bus: s.bus(),
		Env: s.containerEnv("every user of the namespace would see in the pods"),
	}
	if cfg.Namespace == "" {
		text, _ := os.ReadFile(namespaceFile)
		cfg.Namespace = strings.TrimSpace(string(text))
	}

	if cfg.Namespace == "" {
		s.Fault(&s.KubeNamespace, "it is required: the hub is not a pod, whose namespace would be the default")
	}

	if s.Replicas > 1 && s.BusURL == "" {
		s.Fault(&s.Replicas, "several pods of a runtime require AGENT_BUS_URL, because a cancel would not reach the pod that has the run")
	}

	if s.Processes != 0 {
		s.Fault(&s.Processes, "a pod has no limit of processes: omit it")
	}

	var err error
	if s.Kubeconfig != "" {
		cfg.REST, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	} else {
		cfg.REST, err = rest.InClusterConfig()
	}

	s.Invalid(&s.Kubeconfig, err)
	return cfg
}

// kubernetes returns the driver of DEPLOYER=kubernetes.
func (s *settings) kubernetes(log *slog.Logger) (deploy.Driver, error) {
	cfg := s.kubernetesConfig()
	traces := s.containerTraces(log)
	cfg.Env, cfg.Secrets, cfg.Collector = append(cfg.Env, traces.env...), traces.secrets, traces.receiver
	cfg.Metrics = s.MetricsAddr != ""
	klog.SetSlogLogger(log)
	return kubernetes.New(cfg)
}

// objectName is the form of the names in GATEWAY_PARENT.
var objectName = pattern.Compile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// gatewayParent returns the namespace, the name and the listener of GATEWAY_PARENT.
func (s *settings) gatewayParent() [3]string {
	parts := append(strings.Split(s.GatewayParent, "/"), "")
	names := parts[:len(parts)-1]
	if len(names) < 2 || len(names) > 3 || slices.ContainsFunc(names, func(part string) bool { return !objectName().MatchString(part) }) {
		s.Fault(&s.GatewayParent, "%q is not NAMESPACE/NAME of a Gateway, or NAMESPACE/NAME/LISTENER", s.GatewayParent)
		return [3]string{}
	}

	return [3]string(parts)
}
