package runtimecmd

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
)

const (
	maxKeyFile    = 64 << 10 // bytes
	keyFilePeriod = time.Second
)

// readKeyFile returns the list of keys in the file of AGENT_HTTP_API_KEY_FILE.
func readKeyFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read keys: %w", err)
	}
	defer func() { _ = f.Close() }() // it was opened for reading
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	list := strings.TrimSpace(string(text))
	if err == nil && (list == "" || len(text) > maxKeyFile) {
		err = errors.New("it is empty, or longer than 64 KiB")
	}
	if err != nil {
		return "", fmt.Errorf("read keys in %s: %w", path, err)
	}
	return list, nil
}

// followKeys gives the runtime the keys of the file each time they change, until ctx ends. The
// former keys remain valid while the file is missing or invalid.
func followKeys(ctx context.Context, path, list string, rt *runtime.Runtime, log *slog.Logger) {
	tick := time.NewTicker(keyFilePeriod)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next, err := readKeyFile(path)
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
	valid, err := keys(list)
	if err != nil {
		return err
	}
	var texts []string
	for _, key := range valid {
		texts = append(texts, string(key))
	}
	return rt.SetAPIKeys(texts)
}
