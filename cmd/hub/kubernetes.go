package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
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
		Namespace: s.KubeNamespace, Image: s.KubeImage, Memory: s.KubeMemory, CPUs: s.KubeCPUs,
		RuntimeClass: s.KubeClass, StorageSize: s.KubeStorage, StorageClass: s.KubeStorageClass,
	}
	if cfg.Namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if cfg.Namespace = strings.TrimSpace(string(text)); err != nil || cfg.Namespace == "" {
			return cfg, errors.New("KUBERNETES_NAMESPACE is required: the hub is not a pod, whose namespace would be the default")
		}
	}
	if cfg.Replicas, err = strconv.ParseInt(s.KubeReplicas, 10, 64); err != nil || cfg.Replicas < 1 || cfg.Replicas > maxReplicas {
		return cfg, fmt.Errorf("KUBERNETES_REPLICAS: %q is not a number from 1 to %d", s.KubeReplicas, maxReplicas)
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

// kubernetes returns the driver of DEPLOYER=kubernetes.
func (s *settings) kubernetes(log *slog.Logger) (deploy.Driver, error) {
	cfg, err := s.kubernetesConfig()
	if err != nil {
		return nil, err
	}
	klog.SetSlogLogger(log)
	return kubernetes.New(cfg)
}
