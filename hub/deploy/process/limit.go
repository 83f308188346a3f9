package process

import (
	"cmp"
	"errors"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy/internal/replica"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// CheckDeployment returns an error for what this system does not enforce.
func (d *Driver) CheckDeployment(wanted agent.Deployment) error {
	if reasons := d.unlimited(wanted); len(reasons) > 0 {
		return errors.New("deployment." + reasons[0] + ": omit it, or use docker or kubernetes")
	}

	return replica.One(d.Backend(), wanted)
}

// Unlimited returns which limits of Config.Default this system does not enforce, and why. It is
// empty if all are in force.
func (d *Driver) Unlimited() string { return strings.Join(d.unlimited(d.cfg.Default), "; ") }

// unlimited returns the names of the limits that this system does not enforce, each with the
// reason.
func (d *Driver) unlimited(wanted agent.Deployment) (reasons []string) {
	if wanted.Memory != "" && !d.limits.Memory {
		reasons = append(reasons, "memory: this system limits no memory of processes, because the hub can create no control groups")
	}

	if wanted.Processes != 0 && !d.limits.Processes {
		reasons = append(reasons, "processes: this system limits no number of processes, because the hub can create no control groups")
	}

	if wanted.CPU != "" {
		reasons = append(reasons, "cpu: the process deployer limits no processors")
	}

	return reasons
}

// withDefaults returns the settings with those of Config.Default that are absent and can be
// enforced.
func (d *Driver) withDefaults(wanted agent.Deployment) agent.Deployment {
	if d.limits.Memory {
		wanted.Memory = cmp.Or(wanted.Memory, d.cfg.Default.Memory)
	}

	if d.limits.Processes {
		wanted.Processes = cmp.Or(wanted.Processes, d.cfg.Default.Processes)
	}

	return wanted
}
