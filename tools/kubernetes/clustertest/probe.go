package clustertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe runs the probes of a started container until the context ends. It sends to unhealthy if the
// container must be started again.
func (c *container) probe(ctx context.Context, unhealthy chan struct{}) {
	if p := c.spec.StartupProbe; p != nil {
		started := false
		c.repeat(ctx, p, "Startup", func(healthy bool) bool {
			started = healthy
			if !healthy {
				notify(unhealthy)
			}

			return false
		})
		if !started {
			return
		}

		c.mu.Lock()
		c.started = true
		c.mu.Unlock()
		notify(c.pod.dirty)
	}

	var probing sync.WaitGroup
	if p := c.spec.LivenessProbe; p != nil {
		probing.Go(func() {
			c.repeat(ctx, p, "Liveness", func(healthy bool) bool {
				if !healthy {
					notify(unhealthy)
				}

				return healthy
			})
		})
	}

	if p := c.spec.ReadinessProbe; p != nil {
		probing.Go(func() {
			c.repeat(ctx, p, "Readiness", func(healthy bool) bool {
				c.mu.Lock()
				c.ready = healthy
				c.mu.Unlock()
				notify(c.pod.dirty)
				return true
			})
		})
	}

	probing.Wait()
}

// repeat calls a function with each result that its probe confirms, until it returns false.
func (c *container) repeat(ctx context.Context, p *core.Probe, name string, f func(healthy bool) bool) {
	timer := time.NewTimer(time.Duration(p.InitialDelaySeconds) * time.Second)
	defer timer.Stop()
	successes, failures := int32(0), int32(0)
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}

		err := c.probeOnce(ctx, p)
		if ctx.Err() != nil {
			return
		}

		if err == nil {
			successes, failures = successes+1, 0
		} else {
			successes, failures = 0, failures+1
			c.pod.event(core.EventTypeWarning, "Unhealthy", name+" probe failed: "+err.Error())
		}

		if successes == p.SuccessThreshold && !f(true) || failures == p.FailureThreshold && !f(false) {
			return
		}

		timer.Reset(time.Duration(p.PeriodSeconds) * time.Second)
	}
}

// probeOnce makes one attempt, from the network of the node.
func (c *container) probeOnce(ctx context.Context, p *core.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.TimeoutSeconds)*time.Second)
	defer cancel()
	if p.HTTPGet == nil {
		return fmt.Errorf("the stand-in for a kubelet has no such probe")
	}

	url := strings.ToLower(string(p.HTTPGet.Scheme)) + "://" + net.JoinHostPort(c.pod.address, c.port(p.HTTPGet.Port)) + p.HTTPGet.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}

	request.Header.Set("User-Agent", "kube-probe/1.36")
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}

	_ = response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}

	return nil
}

func (c *container) port(port intstr.IntOrString) string {
	for _, named := range c.spec.Ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			return fmt.Sprint(named.ContainerPort)
		}
	}

	return port.String()
}
