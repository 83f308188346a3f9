package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const keyFilePeriod = time.Second

// FollowKeys gives the runtime the keys of the file each time they change from list, until ctx
// ends. The file has at most 64 KiB, with a list as for [agent.Auth.SetKeys]. The former keys
// remain valid while the file is missing or invalid.
func (h *Host) FollowKeys(ctx context.Context, path, list string, log *slog.Logger) {
	tick := time.NewTicker(keyFilePeriod)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		next, err := agentvalue.ReadKeys(path)
		if err == nil && next != list {
			err = h.replaceKeys(next)
		}

		switch {
		case err != nil && err.Error() != failed:
			failed = err.Error()
			log.Warn("keys are not replaced", "err", err)
		case err == nil && next != list:
			list, failed = next, ""
			log.Info("keys were replaced")
		}
	}
}

func (h *Host) replaceKeys(list string) error {
	var auth agent.Auth
	if err := auth.SetKeys(list); err != nil {
		return err
	}

	var texts []string
	for _, key := range auth.APIKeys {
		texts = append(texts, string(key))
	}

	return h.SetAPIKeys(texts)
}
