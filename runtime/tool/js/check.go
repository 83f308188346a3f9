package js

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"
)

// maxChecked limits what is read from the worker of a check, in bytes.
const maxChecked = 4 << 20

// Check loads an untrusted file and returns the name of the tool in it, which the caller checks.
// This process parses nothing of the file: it has a worker process of its own, with the limits of a
// worker, LoadTime and at most two processors. The worker ends with the check or with ctx. The
// error of a faulty file is a [*FileError].
func Check(ctx context.Context, cfg Config, file, source string) (name string, err error) {
	if err := checkExtension(file); err != nil {
		return "", err
	}
	text, err := textOf(file, source)
	if err != nil {
		return "", err
	}
	cfg.Workers = 1
	cfg.Env = append([]string{"GOMAXPROCS=2"}, cfg.Env...)
	h, err := New(cfg)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	h.checks = true
	prog := &program{file: file}
	if err := retry(ctx, func() error { return h.build(ctx, prog, text) }); err != nil {
		return "", err
	}
	return prog.spec.Name, nil
}

// seconds returns a limit for RLIMIT_CPU: a worker that loads for a time on two processors. It
// holds while this process is stopped, and cannot end the worker.
func seconds(load time.Duration) uint64 { return uint64(math.Ceil(2 * load.Seconds())) }

// endReason returns the reason why a worker has ended that was loading a file, from what it wrote
// to stderr. [Process.ended] is closed.
func (p *process) endReason() string {
	said := p.stderr.String()
	for _, limit := range []struct{ signs, reason string }{
		{"stack overflow|stack exceeds", "the limit of the stack was reached: it is nested too deeply"},
		{"out of memory|cannot allocate|failed to allocate|cannot reserve|newosproc", "the limit of memory was reached"},
	} {
		for sign := range strings.SplitSeq(limit.signs, "|") {
			if strings.Contains(said, sign) {
				return limit.reason
			}
		}
	}
	return p.cause.Error()
}
