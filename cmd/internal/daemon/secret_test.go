package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
)

func TestASecretMayBeInAFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for _, row := range []struct {
		name  string
		env   map[string]string
		want  string
		fault string
	}{
		{name: "a value", env: map[string]string{"OPS_KEY": "hunter22"}, want: "hunter22"},
		{name: "a file", env: map[string]string{"OPS_KEY_FILE": file("a", "hunter22")}, want: "hunter22"},
		{name: "a line break", env: map[string]string{"OPS_KEY_FILE": file("b", "hunter22\n")}, want: "hunter22"},
		{name: "a line break of Windows", env: map[string]string{"OPS_KEY_FILE": file("c", "hunter22\r\n")}, want: "hunter22"},
		{name: "a byte order mark", env: map[string]string{"OPS_KEY_FILE": file("k", "\ufeffhunter22\r\n")}, want: "hunter22"},
		{name: "only a byte order mark", env: map[string]string{"OPS_KEY_FILE": file("l", "\ufeff\r\n")}, fault: "is empty"},
		{name: "one line break only", env: map[string]string{"OPS_KEY_FILE": file("d", " a\nb \n\n")}, want: " a\nb \n"},
		{name: "the most", env: map[string]string{"OPS_KEY_FILE": file("e", strings.Repeat("x", 64<<10))}, want: strings.Repeat("x", 64<<10)},
		{name: "too much", env: map[string]string{"OPS_KEY_FILE": file("f", strings.Repeat("x", 64<<10+1))}, fault: "more than 65536 bytes"},
		{name: "empty", env: map[string]string{"OPS_KEY_FILE": file("g", "\n")}, fault: "is empty"},
		{name: "both", env: map[string]string{"OPS_KEY": "x", "OPS_KEY_FILE": file("h", "hunter22")}, fault: "OPS_KEY and OPS_KEY_FILE are both set"},
		{name: "no file", env: map[string]string{"OPS_KEY_FILE": filepath.Join(dir, "none")}, fault: "OPS_KEY_FILE: stat "},
		{name: "a directory", env: map[string]string{"OPS_KEY_FILE": dir}, fault: "not a regular file"},
		{name: "of a setting that is no secret", env: map[string]string{"ADDR_FILE": file("i", "x")}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var settings struct {
				Key  string `env:"OPS_KEY" secret:"file"`
				Addr string `env:"ADDR"`
			}
			read := daemon.Read(&settings, func(name string) string { return row.env[name] }, nil)
			err := read.Err()
			if row.fault != "" {
				require.ErrorContains(t, err, row.fault)
				require.NotContains(t, err.Error(), "hunter22")
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, settings.Key)
			if path := row.env["OPS_KEY_FILE"]; path != "" {
				require.Equal(t, []string{path}, read.Secrets)
			} else {
				require.Empty(t, read.Secrets)
			}
			require.Empty(t, settings.Addr)
		})
	}
}
