package hubcmd

import (
	"cmp"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// maxDeployment returns the most that the deployment settings of an agent may have.
func (s *Settings) maxDeployment() agent.Deployment {
	normal := s.DefaultDeployment()
	return agent.Deployment{
		Memory: cmp.Or(string(s.MaxMemory), normal.Memory), CPU: cmp.Or(string(s.MaxCPU), normal.CPU),
		Processes: cmp.Or(int64(s.MaxProcesses), normal.Processes), Replicas: cmp.Or(int64(s.MaxReplicas), normal.Replicas),
	}
}

// DefaultDeployment returns what the runtime of an agent without deployment settings may use.
func (s *Settings) DefaultDeployment() agent.Deployment {
	d := agent.Deployment{Memory: string(s.Memory), CPU: string(s.CPU), Processes: int64(s.Processes)}
	switch s.Deployer {
	case deployProcess, deployNone: // they have no limits of their own
		d.Memory, d.CPU, d.Processes = cmp.Or(d.Memory, string(s.MaxMemory)), cmp.Or(d.CPU, string(s.MaxCPU)), cmp.Or(d.Processes, int64(s.MaxProcesses))
		return d
	case deployDocker:
		d.Processes = cmp.Or(d.Processes, 512)
	case deployKubernetes:
		d.Replicas = int64(s.Replicas)
	}

	d.Memory, d.CPU = cmp.Or(d.Memory, "1Gi"), cmp.Or(d.CPU, "1000m")
	return d
}

// TraceSecrets returns the secret variables of runtimes that export traces.
func (s *Settings) TraceSecrets() map[string]agent.Secret {
	if !s.Traces() || s.OTLPHeaders == "" {
		return nil
	}

	return map[string]agent.Secret{"OTEL_EXPORTER_OTLP_HEADERS": agent.Secret(s.OTLPHeaders)}
}
