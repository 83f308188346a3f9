//go:build !linux

package main_test

import (
	"errors"
	"os/exec"
	"testing"
	"time"
)

var errLinuxOnly = errors.New("the benchmarks measure processes with Linux interfaces")

type (
	cpuSet struct{}
	cores  struct{ server, others cpuSet }
)

func cpuTime(int) (time.Duration, error)  { return 0, errLinuxOnly }
func residentKiB(int) (float64, error)    { return 0, errLinuxOnly }
func onCores(*cpuSet, func() error) error { return errLinuxOnly }
func endWithParent(*exec.Cmd)             {}
func splitCores(b *testing.B) *cores {
	b.Helper()
	b.Fatal(errLinuxOnly)
	return nil
}
