package catalog

import (
	"context"

	"github.com/seed93082962/agenthost/hub/artifact"
)

// States of a custom tool or a skill.
const (
	statusReady   = "ready"
	statusMissing = "missing" // the file no longer exists
)

// states returns the status of each file.
func (s *Service) states(ctx context.Context, refs ...artifact.Ref) ([]string, error) {
	exist, err := s.cfg.Artifacts.Exist(ctx, refs...)
	if err != nil {
		return nil, err
	}
	states := make([]string, len(refs))
	for i := range states {
		states[i] = statusMissing
		if exist[i] {
			states[i] = statusReady
		}
	}
	return states, nil
}

// stored stores a file, runs change, which commits a row that names it, and confirms that no sweep
// deleted the file before there was the row.
func (s *Service) stored(ctx context.Context, u *artifact.Upload, kind artifact.Kind, name string, change func(artifact.Ref) error) error {
	ref, err := u.Commit(ctx, kind, name)
	if err != nil {
		return err
	}
	if err := change(ref); err != nil {
		return err
	}
	// The row is committed: the upload succeeded even if the file cannot be confirmed now.
	if exist, err := s.cfg.Artifacts.Exist(ctx, ref); err != nil || exist[0] {
		return nil //nolint:nilerr // see above
	}
	_, err = u.Commit(ctx, kind, name)
	return err
}

// Referenced reports which keys a tool or a skill of any tenant names, for [artifact.Store.Sweep].
func (s *Service) Referenced(ctx context.Context, keys []string) (map[string]bool, error) {
	named := map[string]bool{}
	if len(keys) == 0 {
		return named, nil
	}
	used, err := usedKeys(ctx, s.store.Read(), keys)
	for _, key := range used {
		named[key] = true
	}
	return named, err
}

// hashOf returns the public form of a hash.
func hashOf(ref artifact.Ref) string { return "sha256:" + ref.Hash }
