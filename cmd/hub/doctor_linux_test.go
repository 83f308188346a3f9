package main_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/doctor"
	"github.com/seed93082962/agenthost/internal/usertest"
)

// Files that the user of the hub cannot write are found. SQLite would leave a log with the mode of
// the database behind, with which no hub starts, also after the mode was corrected.
func TestDoctorOfFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	env := stopped(t)
	dir, program := env[1], binary(t)
	for _, path := range []string{dir, filepath.Dir(program)} {
		usertest.Enterable(t, path)
	}
	require.NoError(t, os.Chmod(program, 0o755))
	user := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // no mode denies root anything
		user.Credential = &syscall.Credential{Uid: usertest.Unprivileged, Gid: usertest.Unprivileged}
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			require.NoError(t, err)
			return os.Chown(path, usertest.Unprivileged, usertest.Unprivileged)
		}))
	}
	faults := func() (facts []string) {
		cmd := exec.CommandContext(t.Context(), program, "doctor", "-o", "json")
		cmd.Dir, cmd.SysProcAttr = "/", user
		cmd.Env = []string{"HUB_DATA_DIR=" + dir, "HUB_ADDR=127.0.0.1:1", "PATH=" + os.Getenv("PATH")}
		out, _ := cmd.Output() // it fails if there are faults
		var results []doctor.Result
		require.NoError(t, json.Unmarshal(out, &results), "%s", out)
		for _, r := range results {
			if r.Status == doctor.Error {
				facts = append(facts, r.Check+" "+r.Fact)
			}
		}
		return facts
	}
	for _, name := range []string{"hub.db", "blobs", "deployments"} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(path, info.Mode().Perm()&^0o222))
		check := map[bool]string{true: "disk", false: "database"}[info.IsDir()]
		require.Equal(t, []string{check + " " + path + " cannot be written: permission denied"}, faults())
		require.NoFileExists(t, filepath.Join(dir, "hub.db-shm"))
		require.NoError(t, os.Chmod(path, info.Mode().Perm()))
		require.Empty(t, faults())
	}
}
