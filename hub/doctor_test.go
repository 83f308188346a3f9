package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/doctor"
	"github.com/seed93082962/agenthost/internal/secret"
)

// A fault of a hub that serves is found, with what to do.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		key := secret.Generate()
		files := folder(t)
		s := open(t, url, func(c *hub.Config) { c.Artifacts, c.EncryptionKeys = files, []string{key} })
		admin := s.setUp()
		used := s.upload(admin, "used.ts", usedTool).want(http.StatusCreated)
		name := "tools/" + strings.TrimPrefix(used["hash"].(string), "sha256:") + "/used.ts"
		cfg := hub.Config{DatabaseURL: url, EncryptionKeys: []string{key}, Artifacts: files, PublicURL: s.url}
		examine := func(change func(c *hub.Config)) []doctor.Result {
			c := cfg
			change(&c)
			return hub.Diagnose(t.Context(), c)
		}
		healthy := examine(func(*hub.Config) {})
		require.Zero(t, doctor.Failed(healthy), "%v", healthy)
		for _, r := range healthy {
			require.Equal(t, doctor.OK, r.Status, "%v", r)
		}
		found := func(results []doctor.Result, check, fact, fix string) {
			t.Helper()
			for _, r := range results {
				if r.Check == check && r.Status == doctor.Error && strings.Contains(r.Fact, fact) {
					require.Contains(t, r.Fix, fix)
					return
				}
			}
			require.Fail(t, "not found", "%s: %s in %v", check, fact, results)
		}
		found(examine(func(c *hub.Config) { c.EncryptionKeys = []string{secret.Generate()} }), "key", "which is not configured", "PROVIDER_ENCRYPTION_KEY")
		found(examine(func(c *hub.Config) { c.Artifacts = &blob.Memory{} }), "storage", "1 of 1 files are missing, such as "+name, "set BLOB_URL")
		skewed := examine(func(c *hub.Config) { c.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
		found(skewed, "clock", map[bool]string{true: "the clock of the database differs by 1h0m0s", false: "the newest audit entry is "}[strings.HasPrefix(url, "postgres")], "NTP")
		d := dbtest.Open(t, url)
		require.NoError(t, db.Exec(t.Context(), d.Write(), "plant", `UPDATE audit_heads SET at = $1`, db.Micros(time.Now().Add(time.Hour))))
		found(examine(func(*hub.Config) {}), "clock", "in the future", "pruned late")
		require.NoError(t, db.Exec(t.Context(), d.Write(), "plant", `INSERT INTO usage_days (tenant_id, slice, day,
			agent_name, user_id, model, user_name, runs, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost)
			VALUES ('acme', 'agent', $1, 'a', '', 'nameless', '', 1, 5, 0, 0, 0, 0, 0)`,
			time.Now().Unix()/(24*60*60)))
		require.Contains(t, fmt.Sprint(examine(func(*hub.Config) {})), `1 models of the last 30 days have no price, such as "nameless"`)
		require.NoError(t, db.Exec(t.Context(), d.Write(), "plant", `DELETE FROM agenthost_migrations WHERE series = 'chat'`))
		pending := examine(func(*hub.Config) {})
		require.Equal(t, doctor.Result{
			Check: "database", Status: doctor.Warning, Fact: "migrations have to be applied",
			Fix: "make a backup with the former version, and start the hub of this version",
		}, pending[0])
	})
}

func TestDiagnoseFindsDeploymentsOfAnotherMachine(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, hub.Migrations()...)
		planted := `INSERT INTO deployments (key, tenant_id, agent_name, desired, edition, revision, spec_hash, sealed, linked_at, deployed_at, deployed_by, state, machine)
			VALUES ('k', 'default', 'a', 'running', 1, 1, '', '', 0, 0, '', 'running', 'there')`
		require.NoError(t, db.Exec(t.Context(), d.Write(), "plant", planted))
		for _, r := range hub.Diagnose(t.Context(), hub.Config{DatabaseURL: url, Machine: "here"}) {
			if r.Check == "machine" {
				require.Contains(t, r.Fact, "1 deployments are processes of another machine")
				require.Contains(t, r.Fix, "hub adopt")
				return
			}
		}
		require.Fail(t, "not found")
	}, hub.Migrations()...)
}
