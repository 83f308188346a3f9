package kubernetes

import (
	"cmp"
	"fmt"
	"strings"
)

// cause returns why there are no pods.
func (w *workload) cause() string {
	for _, c := range w.Status.Conditions {
		if c.Type != "ReplicaFailure" || c.Status != "True" {
			continue
		}

		if _, quota, found := strings.Cut(c.Message, "exceeded quota:"); found {
			return "the quota of the namespace is used up:" + quota
		}

		return "the cluster rejects its pods: " + c.Message
	}

	return ""
}

// cause returns why a pod does not run, or has crashed.
func (p *pod) cause(cfg *Config) string {
	for _, c := range p.Status.Containers {
		if t := c.State.Terminated; t != nil {
			return t.cause(p.memory(cfg))
		}

		if t := c.LastState.Terminated; t != nil {
			return t.cause(p.memory(cfg))
		}

		if w := c.State.Waiting; w != nil {
			if text := waiting(w.Reason, w.Message, cfg); text != "" {
				return text
			}
		}

		if c.State.Running != nil {
			return ""
		}
	}

	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" && c.Reason == "Unschedulable" {
			return "no node has room for it: " + c.Message
		}
	}

	if p.Status.Message != "" || p.Warning == nil {
		return p.Status.Message
	}

	switch p.Warning.Reason { // of a container that is being created, whose state has no reason
	case "FailedMount", "FailedAttachVolume", "FailedMapVolume":
		return "a volume cannot be mounted: " + p.Warning.Message
	}

	return p.Warning.Reason + ": " + p.Warning.Message
}

// eviction returns why the node has evicted a pod.
func (p *pod) eviction(cfg *Config) string {
	message := strings.TrimRight(p.Status.Message, ". ")
	return fmt.Sprintf("its node has evicted it, as it does with a pod that has more than %s of files: %s", cfg.Scratch, message)
}

// preparing reports whether the node creates the containers of a pod, of which none was started,
// and nothing has failed: it pulls the image, for example.
func (p *pod) preparing(cfg *Config) bool {
	for _, c := range p.Status.Containers {
		if w := c.State.Waiting; w == nil || c.LastState.Terminated != nil || w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return false
		}
	}

	return len(p.Status.Containers) > 0 && p.cause(cfg) == ""
}

// waiting returns why a container was not started.
func waiting(reason, message string, cfg *Config) string {
	switch reason {
	case "", "ContainerCreating", "PodInitializing":
		return message
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "ImageInspectError":
		return strings.TrimSuffix(fmt.Sprintf("the image %s cannot be pulled: %s", cfg.Image, message), ": ")
	}

	return strings.TrimSuffix(reason+": "+message, ": ")
}

// memory returns the limit of a pod.
func (p *pod) memory(cfg *Config) string {
	for _, c := range p.Spec.Containers {
		return cmp.Or(c.Resources.Limits.Memory, cfg.Default.Memory)
	}

	return cfg.Default.Memory
}

// cause returns why a container ended. memory is its limit.
func (t *terminated) cause(memory string) string {
	switch {
	case t.Reason == "OOMKilled":
		return fmt.Sprintf("it needed more memory than its limit of %s", memory)
	case t.Message != "":
		return t.Message
	case t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed":
		return t.Reason
	}

	return fmt.Sprintf("exit status %d", t.ExitCode)
}
