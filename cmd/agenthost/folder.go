package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	// scanInterval is the time between two looks at the directory of the agents. A change is deployed
	// when two looks have found the same.
	scanInterval = 150 * time.Millisecond
	// maxScanned bounds the files that are looked at.
	maxScanned = 2000
)

// followFolder deploys the agents of the directory, and again when a file changes, until ctx ends.
func (d *dev) followFolder(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(d.agents, "agents.yaml")); err != nil {
		return err
	}

	if err := d.startAgents(ctx); err != nil {
		return err
	}

	tick := time.NewTicker(scanInterval)
	defer tick.Stop()
	deployed, last := "", ""
	for {
		now, err := scan(d.agents)
		if err == nil && now == last && now != deployed {
			deployed = now
			err = d.deployFolder(ctx)
		}

		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(d.stderr, "agenthost dev:", d.explain(err)) // until the next change
		}

		last = now
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// scan returns a text that changes if a file of a directory does. Hidden files are ignored, and
// links are followed.
func scan(dir string) (string, error) {
	found := scanned{dirs: map[string]bool{}}
	err := found.add(dir)
	return found.text.String(), err
}

type scanned struct {
	text strings.Builder
	n    int
	dirs map[string]bool // without links, so that each is read once
}

func (s *scanned) add(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || s.dirs[real] {
		return ignoreMissing(err)
	}

	s.dirs[real] = true
	entries, err := os.ReadDir(real)
	if err != nil {
		return ignoreMissing(err)
	}

	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" {
			continue
		}

		if s.n++; s.n > maxScanned {
			return fmt.Errorf("%s has more than %d files", dir, maxScanned)
		}

		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			err = ignoreMissing(err)
		case info.IsDir():
			err = s.add(path)
		default:
			fmt.Fprintln(&s.text, path, info.Size(), info.ModTime().UnixNano())
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// ignoreMissing ignores that a file was deleted in the meantime, or that a link leads nowhere.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// deployFolder makes the agents of the hub those of the directory, and deploys them.
func (d *dev) deployFolder(ctx context.Context) error {
	b, err := d.openFolder(d.getenv)
	if err != nil {
		return err
	}

	for _, line := range b.ignored() {
		fmt.Fprintln(d.stderr, "agenthost dev:", line)
	}

	skills, err := b.skillComponents(ctx, d.client)
	if err != nil {
		return err
	}

	var failed error
	for i := range b.file.Agents {
		d.warnTools(&b.file.Agents[i])
		if err := d.deployOne(ctx, b, i, skills); err != nil {
			failed = errors.Join(failed, fmt.Errorf("agent %s: %w", b.file.Agents[i].ID, err))
		}
	}

	return failed
}

// openFolder reads the directory of the agents. A variable without a value is an error.
func (d *dev) openFolder(getenv func(string) string) (*bundle, error) {
	b, err := d.openBundle(d.agents, readRegular, getenv, false)
	if err != nil {
		return nil, err
	}

	b.file.RelativeTo(b.dir)
	b.values.RelativeTo(b.dir)
	return b, nil
}

// deployOne makes an agent of the hub as in the directory, and deploys it if it has changed.
func (d *dev) deployOne(ctx context.Context, b *bundle, i int, skills []component) error {
	provider, err := d.providerOf(ctx, &b.values.Agents[i])
	if err != nil {
		return err
	}

	a := &b.file.Agents[i]
	a.Provider.BaseURL = agent.Secret(provider.BaseURL)
	var extra agent.Hub
	if a.Hub != nil {
		extra = *a.Hub
	}

	extra.Provider = provider.Name
	if extra.Access == nil {
		extra.Access = &agent.HubAccess{Everyone: true}
	}

	a.Hub = &extra
	one, err := b.agentOf(ctx, d.client, i, skills)
	if err != nil {
		return err
	}

	stored, err := b.store(ctx, d.client, i, one)
	if err != nil {
		return err
	}

	state, err := d.client.Deployments.Get(ctx, stored.Name)
	if err != nil || state.State == wire.StateRunning && !state.ConfigDrift && state.Revision == state.ServingRevision {
		return err
	}

	if err := d.deployAgent(ctx, stored.Name); err != nil {
		return err
	}

	fmt.Fprintf(d.stdout, "The agent %s is running with the model %s. Chat with it: %s chat %s\n", stored.Name, stored.Model, d.name, stored.Name)
	return nil
}
