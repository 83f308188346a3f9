package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// ParseKeys parses a list of API keys, separated by commas, by the rules of auth.apiKey in a file.
// An empty key is an error, because it may be a variable that is not set.
func ParseKeys(list string) ([]agent.Secret, error) {
	file := agent.File{Auth: agent.Auth{APIKeys: agent.SplitKeys(list)}, Agents: []agent.Agent{}}
	if faults, ok := errors.AsType[agent.Faults](file.Validate()); ok {
		return nil, fmt.Errorf("a key %s", faults[0].Message)
	}

	return file.Auth.APIKeys, nil
}

const (
	maxKeyFile    = 64 << 10 // bytes
	keyFilePeriod = time.Second
)

// ReadKeys returns the list of API keys in a file, without a byte order mark.
func ReadKeys(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read keys: %w", err)
	}

	defer func() { _ = f.Close() }() // it was opened for reading
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	list := strings.TrimSpace(strings.TrimPrefix(string(text), "\ufeff"))
	if err == nil && (list == "" || len(text) > maxKeyFile) {
		err = errors.New("it is empty, or longer than 64 KiB")
	}

	if err != nil {
		return "", fmt.Errorf("read keys in %s: %w", path, err)
	}

	return list, nil
}

// FollowKeys gives the runtime the keys of the file each time they change, until ctx ends. The
// former keys remain valid while the file is missing or invalid.
func FollowKeys(ctx context.Context, path, list string, rt *runtime.Runtime, log *slog.Logger) {
	tick := time.NewTicker(keyFilePeriod)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		next, err := ReadKeys(path)
		if err == nil && next != list {
			err = replaceKeys(rt, next)
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

func replaceKeys(rt *runtime.Runtime, list string) error {
	valid, err := ParseKeys(list)
	if err != nil {
		return err
	}

	var texts []string
	for _, key := range valid {
		texts = append(texts, string(key))
	}

	return rt.SetAPIKeys(texts)
}
