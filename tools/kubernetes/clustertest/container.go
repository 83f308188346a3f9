package clustertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container runs the program of a container, again and again if its pod wants that.
type container struct {
	pod  *pod
	spec *core.Container
	dir  string

	mu      sync.Mutex // guards the fields below
	state   core.ContainerState
	last    core.ContainerState
	attempt int // number of starts
	started bool
	ready   bool
	process *os.Process
}

func newContainer(p *pod, spec *core.Container) *container {
	return &container{
		pod: p, spec: spec, dir: filepath.Join(p.dir, "containers", spec.Name),
		state: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}
}

// run runs the container until stop is closed or its context ends. Its pod always restarts it.
func (c *container) run(ctx context.Context, stop <-chan struct{}) {
	first := c.pod.node.options.BackOff
	for pause := time.Duration(0); ; pause = min(max(2*pause, first), 30*first) { // the first time there is no pause
		if reason, err := c.check(); err != nil {
			c.fail(reason, err)
			if !c.sleep(ctx, stop, max(pause, first)) {
				return
			}

			continue
		}

		c.execute(ctx, stop)
		if closed(stop) || ctx.Err() != nil {
			return
		}

		if pause == 0 {
			continue
		}

		c.wait("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
			pause, c.spec.Name, c.pod.name, c.pod.namespace, c.pod.uid))
		c.pod.event(core.EventTypeWarning, "BackOff", "Back-off restarting failed container "+c.spec.Name+" in pod "+c.pod.name)
		if !c.sleep(ctx, stop, pause) {
			return
		}
	}
}

// check returns the reason why the container cannot be created.
func (c *container) check() (reason string, err error) {
	if _, found := c.pod.node.images[c.spec.Image]; !found {
		return "ErrImagePull", fmt.Errorf("failed to pull and unpack image %q: failed to resolve reference %[1]q: %[1]s: not found", c.spec.Image)
	}

	if user := c.user(); user == 0 && c.nonRoot() {
		return "CreateContainerConfigError", errors.New("container has runAsNonRoot and image will run as root")
	}

	if _, err := c.environment(); err != nil {
		return "CreateContainerConfigError", err
	}

	return "", nil
}

// fail reports that the container cannot be created. As with a kubelet, each attempt to pull an
// image is followed by a pause with another reason.
func (c *container) fail(reason string, err error) {
	c.wait(reason, err.Error())
	if reason != "ErrImagePull" {
		c.pod.event(core.EventTypeWarning, "Failed", "Error: "+err.Error())
		return
	}

	c.pod.event(core.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", c.spec.Image, err))
	c.pod.event(core.EventTypeWarning, "Failed", "Error: ErrImagePull")
	c.wait("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.spec.Image, err))
}

// wait sets a waiting state. A state that has ended becomes the last one.
func (c *container) wait(reason, message string) {
	c.mu.Lock()
	if c.state.Terminated != nil {
		c.last = c.state
	}

	c.state = core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: message}}
	c.mu.Unlock()
	notify(c.pod.dirty)
}

func (c *container) sleep(ctx context.Context, stop <-chan struct{}, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
	case <-ctx.Done():
	}

	return false
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// execute runs the program once.
func (c *container) execute(ctx context.Context, stop <-chan struct{}) {
	begin := meta.Now()
	cmd, box, err := c.command()
	var output *os.File
	if err == nil {
		output, cmd.Stdout, err = os.Pipe()
	}

	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
		_ = cmd.Stdout.(*os.File).Close()
	}

	if err != nil {
		c.ended(begin, 128, "StartError", err.Error())
		return
	}

	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { c.copyLog(output) })
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	c.mu.Lock()
	c.process, c.started, c.ready = cmd.Process, c.spec.StartupProbe == nil, false
	if c.state.Terminated != nil {
		c.last = c.state
	}

	c.state = core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: begin}}
	c.mu.Unlock()
	notify(c.pod.dirty)
	unhealthy := make(chan struct{}, 1)
	probing, endProbes := context.WithCancel(ctx)
	helpers.Go(func() { c.probe(probing, unhealthy) })

	err = c.await(ctx, exited, stop, unhealthy, cmd.Process)
	endProbes()
	cancel()
	helpers.Wait()
	code, reason := int32(0), "Completed"
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status := exit.Sys().(syscall.WaitStatus)
		code, reason = int32(status.ExitStatus()), "Error" //nolint:gosec // G115: a byte
		if status.Signaled() {
			code = 128 + int32(status.Signal()) //nolint:gosec // G115: at most 64
		}

		if box.outOfMemory() {
			reason = "OOMKilled"
		}
	}

	c.ended(begin, code, reason, c.message(box, code))
}

// await returns the end of a process. It ends it on request, if it fails its probes, or with the
// context.
func (c *container) await(ctx context.Context, exited chan error, stop <-chan struct{}, unhealthy chan struct{}, process *os.Process) error {
	var deadline, paused <-chan time.Time
	for killed := ctx.Done(); ; {
		select {
		case err := <-exited:
			return err
		case <-stop:
			stop = nil
			c.pod.event(core.EventTypeNormal, "Killing", "Stopping container "+c.spec.Name)
			paused = time.After(c.preStop())
		case <-paused:
			_ = process.Signal(syscall.SIGTERM)
		case <-unhealthy:
			_ = process.Signal(syscall.SIGTERM)
			deadline = time.After(time.Duration(*c.pod.spec.TerminationGracePeriodSeconds) * time.Second)
		case <-deadline:
			_ = process.Kill()
		case <-killed:
			killed = nil
			_ = process.Kill()
		}
	}
}

// preStop returns how long the container waits before it gets SIGTERM.
func (c *container) preStop() time.Duration {
	if l := c.spec.Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
		return time.Duration(l.PreStop.Sleep.Seconds) * time.Second
	}

	return 0
}

func (c *container) signalKill() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Running != nil && c.process.Kill() == nil
}

// ended sets a terminated state.
func (c *container) ended(begin meta.Time, code int32, reason, message string) {
	c.mu.Lock()
	c.state = core.ContainerState{Terminated: &core.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message, StartedAt: begin, FinishedAt: meta.Now(), ContainerID: c.id(),
	}}
	c.started, c.ready = false, false
	c.mu.Unlock()
	notify(c.pod.dirty)
}

// message returns the termination message: that of its file or, if the container wants it, the end
// of the log of a container that failed.
func (c *container) message(box sandbox, code int32) string {
	const most = 4096 // bytes, as with a kubelet
	text, _ := os.ReadFile(box.Message)
	if len(text) == 0 && code != 0 && c.spec.TerminationMessagePolicy == core.TerminationMessageFallbackToLogsOnError {
		lines := tail(c.logFile(0), 80)
		for i, line := range lines {
			_, lines[i], _ = strings.Cut(line, " ")
		}

		text = []byte(strings.Join(lines, "\n"))
	}

	return string(text[max(len(text)-most, 0):])
}

func (c *container) id() string {
	return fmt.Sprintf("process://%s/%s/%d", c.pod.uid, c.spec.Name, c.attempt)
}

// logFile returns the path of a log: 0 is that of the present container, 1 that of the one before.
func (c *container) logFile(former int) string {
	return filepath.Join(c.dir, strconv.Itoa(c.attempt-former)+".log")
}

// copyLog writes each line of the output with its time to the log.
func (c *container) copyLog(output *os.File) {
	defer func() { _ = output.Close() }()
	log, err := os.Create(c.logFile(0))
	if err != nil {
		return
	}

	defer func() { _ = log.Close() }()
	for r := bufio.NewReader(output); ; {
		line, err := r.ReadString('\n')
		if line != "" {
			_, _ = fmt.Fprintf(log, "%s %s\n", time.Now().UTC().Format(time.RFC3339Nano), strings.TrimSuffix(line, "\n"))
		}

		if err != nil {
			return
		}
	}
}

// command returns the process of the next attempt, which this program enters, see [enterContainer].
func (c *container) command() (*exec.Cmd, sandbox, error) {
	c.mu.Lock()
	c.attempt++
	c.mu.Unlock()
	box, err := c.sandbox()
	if err != nil {
		return nil, box, err
	}

	text, err := json.Marshal(box)
	if err != nil {
		return nil, box, err
	}

	path := filepath.Join(c.dir, "sandbox.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, box, err
	}

	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Env = []string{envContainer + "=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	return cmd, box, nil
}
