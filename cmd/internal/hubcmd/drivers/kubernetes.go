package drivers

import (
	"log/slog"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// kubernetesConfig returns the configuration of DEPLOYER=kubernetes. It adds the faults of its
// settings.
func kubernetesConfig(s *hubcmd.Settings) kubernetes.Config {
	cfg := kubernetes.Config{
		Namespace: s.KubeNamespace, Image: s.Image, Default: s.DefaultDeployment(), Scratch: string(s.KubeScratch),
		RuntimeClass: s.KubeClass, StorageSize: string(s.KubeStorage), StorageClass: s.KubeStorageClass,
		Internal: s.KubeInternal, PodAddress: s.KubeAddress == "pod", Bus: bus(s),
		Env: containerEnv(s, "every user of the namespace would see in the pods"),
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

// openKubernetes prepares the driver of DEPLOYER=kubernetes.
func openKubernetes(s *hubcmd.Settings) hubcmd.OpenDeployer {
	cfg := kubernetesConfig(s)
	return func(log *slog.Logger) (deploy.Driver, error) {
		traces := containerTracesOf(s, log)
		cfg.Env, cfg.Secrets, cfg.Collector = append(cfg.Env, traces.env...), traces.secrets, traces.receiver
		cfg.Metrics = s.MetricsAddr != ""
		klog.SetSlogLogger(log)
		return kubernetes.New(cfg)
	}
}
