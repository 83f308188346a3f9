package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/secret"
)

// The key that is kept belongs to the database, wherever that is: where it is gone, none is made in its place.
func TestNoKeyIsMadeForADatabaseThatHasOne(t *testing.T) {
	database := "sqlite://" + filepath.Join(t.TempDir(), "elsewhere.db")
	started(t, []string{"HUB_DATA_DIR", t.TempDir(), "DATABASE_URL", database, "HUB_ADDR", "127.0.0.1:0"})
	dir := filepath.Join(t.TempDir(), "typo")
	env := []string{"HUB_DATA_DIR", dir, "DATABASE_URL", database, "HUB_ADDR", "127.0.0.1:0"}
	for _, args := range [][]string{nil, {"audit"}, {"rekey"}, {"reset-password", "admin"}} {
		_, err := once(t, env, args...)
		require.ErrorContains(t, err, filepath.Join(dir, "encryption.key")+" is gone", "%v", args)
		require.NoDirExists(t, dir)
	}
}

func TestAnotherKeyIsToldInOneSentence(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "encryption.key")
	env := []string{"HUB_DATA_DIR", dir, "HUB_ADDR", "127.0.0.1:0"}
	started(t, env)
	refused := func(where string, env []string) {
		_, err := once(t, env)
		require.ErrorContains(t, err, where+" has no key that opens what this database has sealed")
		require.ErrorIs(t, err, secret.ErrUnknownKey)
		require.NotContains(t, err.Error(), "\n")
	}
	refused("PROVIDER_ENCRYPTION_KEY", append([]string{"PROVIDER_ENCRYPTION_KEY", secret.Generate()}, env...))
	require.NoError(t, os.WriteFile(key, []byte(secret.Generate()), 0o600))
	refused(key, env)
}
