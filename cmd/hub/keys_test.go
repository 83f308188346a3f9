package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/secret"
)

// The stored key belongs to the database, wherever that is: a missing key is not replaced by a new
// one.
func TestNoKeyIsGeneratedForAnExistingDatabase(t *testing.T) {
	database := "sqlite://" + filepath.Join(t.TempDir(), "elsewhere.db")
	started(t, []string{"HUB_DATA_DIR", t.TempDir(), "DATABASE_URL", database, "HUB_ADDR", "127.0.0.1:0"})
	dir := filepath.Join(t.TempDir(), "typo")
	env := []string{"HUB_DATA_DIR", dir, "DATABASE_URL", database, "HUB_ADDR", "127.0.0.1:0"}
	for _, args := range [][]string{nil, {"audit"}, {"rekey"}, {"reset-password", "admin"}} {
		_, err := once(t, env, args...)
		require.ErrorContains(t, err, filepath.Join(dir, "encryption.key")+" is missing", "%v", args)
		require.NoDirExists(t, dir)
	}
}

func TestAWrongKeyIsReportedInOneSentence(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "encryption.key")
	env := []string{"HUB_DATA_DIR", dir, "HUB_ADDR", "127.0.0.1:0"}
	started(t, env)
	rejects := func(where string, env []string) {
		_, err := once(t, env)
		require.ErrorContains(t, err, where+" has no key that decrypts the secrets of this database")
		require.ErrorIs(t, err, secret.ErrUnknownKey)
		require.NotContains(t, err.Error(), "\n")
	}
	rejects("PROVIDER_ENCRYPTION_KEY", append([]string{"PROVIDER_ENCRYPTION_KEY", secret.Generate()}, env...))
	require.NoError(t, os.WriteFile(key, []byte(secret.Generate()), 0o600))
	rejects(key, env)
}
