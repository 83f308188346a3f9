package clustertest

import (
	"context"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// publish writes each change of the status to the API server.
func (p *pod) publish(ctx context.Context) {
	const pause = 200 * time.Millisecond
	for {
		select {
		case <-p.dirty:
		case <-ctx.Done():
			return
		}

		for p.report(ctx) != nil {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// report writes the status once. It has no effect if the pod is gone.
func (p *pod) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pods := p.node.cluster.client.CoreV1().Pods(p.namespace)
	object, err := pods.Get(ctx, p.name, meta.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && object.UID != p.uid {
		return nil
	}

	if err != nil {
		return err
	}

	p.fill(&object.Status)
	_, err = pods.UpdateStatus(ctx, object, meta.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}

	return err
}

// fill sets the fields of a status that belong to a kubelet.
func (p *pod) fill(s *core.PodStatus) {
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	s.HostIP, s.StartTime = p.node.address, &p.started
	s.HostIPs = []core.HostIP{{IP: p.node.address}}
	s.ContainerStatuses = nil
	containersReady, running, failed := ready, 0, 0
	for _, c := range p.containers {
		status := c.status()
		s.ContainerStatuses = append(s.ContainerStatuses, status)
		containersReady = containersReady && status.Ready
		switch end := status.State.Terminated; {
		case end == nil || p.latest().DeletionTimestamp == nil:
			running++
		case end.ExitCode != 0:
			failed++
		}
	}

	if ready {
		s.PodIP, s.PodIPs = p.address, []core.PodIP{{IP: p.address}}
	}

	switch {
	case !ready || running > 0 && p.waits():
		s.Phase = core.PodPending
	case running > 0:
		s.Phase = core.PodRunning
	case failed > 0:
		s.Phase = core.PodFailed
	default:
		s.Phase = core.PodSucceeded
	}

	setCondition(s, core.PodReadyToStartContainers, ready, "")
	setCondition(s, core.PodInitialized, true, "")
	setCondition(s, core.ContainersReady, containersReady, "ContainersNotReady")
	setCondition(s, core.PodReady, containersReady, "ContainersNotReady")
}

// waits reports whether a container was never started.
func (p *pod) waits() bool {
	for _, c := range p.containers {
		c.mu.Lock()
		never := c.attempt == 0
		c.mu.Unlock()
		if never {
			return true
		}
	}

	return false
}

func setCondition(s *core.PodStatus, kind core.PodConditionType, is bool, reason string) {
	status := core.ConditionFalse
	if is {
		status, reason = core.ConditionTrue, ""
	}

	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.LastTransitionTime = meta.Now()
			}

			c.Status, c.Reason = status, reason
			return
		}
	}

	s.Conditions = append(s.Conditions, core.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: meta.Now()})
}

// status returns the status of the container.
func (c *container) status() core.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := c.state.Running != nil
	started := running && c.started
	s := core.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, State: c.state, LastTerminationState: c.last, Started: &started,
		RestartCount: int32(max(c.attempt-1, 0)), Ready: started && (c.ready || c.spec.ReadinessProbe == nil), //nolint:gosec // G115: few
	}
	if c.attempt > 0 {
		s.ContainerID, s.ImageID = c.id(), c.spec.Image+"@sha256:0"
	}

	return s
}
