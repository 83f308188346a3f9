package hubcmd

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// maxDeployment returns the most that the deployment settings of an agent may have. The settings of
// the deployer are those of agents that have none, and the default of the bounds.
func (s *settings) maxDeployment() (most deploy.Bounds, err error) {
	number := func(name, text string) int64 {
		if text == "" {
			return 0
		}
		n, failed := strconv.ParseInt(text, 10, 64)
		if failed != nil || n < 1 {
			err = errors.Join(err, fmt.Errorf("%s: %q is not a number of at least 1", name, text))
		}
		return n
	}
	most = deploy.Bounds{Memory: s.MaxMemory, CPU: s.MaxCPU}
	most.Processes = number("DEPLOYER_PROCESSES_MAX", s.MaxProcesses)
	most.Replicas = number("DEPLOYER_REPLICAS_MAX", s.MaxReplicas)
	if err != nil {
		return most, err
	}
	names := map[string]string{
		"memory": "DEPLOYER_MEMORY_MAX", "cpu": "DEPLOYER_CPU_MAX", "processes": "DEPLOYER_PROCESSES_MAX", "replicas": "DEPLOYER_REPLICAS_MAX",
	}
	faults, _ := errors.AsType[agent.Faults](most.Validate())
	for _, f := range faults {
		err = errors.Join(err, fmt.Errorf("%s: it %s", names[f.Key], f.Message))
	}
	if err != nil {
		return most, err
	}
	return s.withDefaults(most)
}

// withDefaults returns the bounds with the settings of the deployer for those that are not set.
func (s *settings) withDefaults(most deploy.Bounds) (deploy.Bounds, error) {
	switch s.Deployer {
	case deployDocker:
		cfg, err := s.dockerConfig()
		if err != nil {
			return most, err
		}
		most.Memory = cmp.Or(most.Memory, agent.MemoryText(cfg.Memory))
		most.CPU = cmp.Or(most.CPU, agent.CPUText(int64(cfg.CPUs*1000)))
		most.Processes = cmp.Or(most.Processes, cfg.Processes)
	case deployKubernetes:
		replicas, err := s.replicas()
		if err != nil {
			return most, err
		}
		of, err := kubernetes.Config{Memory: s.KubeMemory, CPUs: s.KubeCPUs, Replicas: replicas}.Bounds()
		if err != nil {
			return most, fmt.Errorf("KUBERNETES_MEMORY, KUBERNETES_CPUS: %w", err)
		}
		most.Memory = cmp.Or(most.Memory, of.Memory)
		most.CPU = cmp.Or(most.CPU, of.CPU)
		most.Replicas = cmp.Or(most.Replicas, of.Replicas)
	}
	return most, nil
}
