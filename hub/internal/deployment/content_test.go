package deployment_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestSecretsAreSealed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		apiKey := h.reach("running")["apiKey"].(string)
		var sealed []byte
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), "SELECT sealed FROM deployments").Scan(&sealed))
		require.NotContains(t, string(sealed), providerKey)
		require.EqualValues(t, providerKey, w.driver.Request(key).Config.Provider.APIKey)
		require.NotContains(t, h.server.Log.String()+strings.Join(h.audit(), ""), apiKey)
		w.keys = append([]string{secret.Generate()}, w.keys...)
		n, err := w.store().Reseal(t.Context(), deployment.Sealed()...)
		require.NoError(t, err)
		require.Equal(t, 2, n, "the keys and the request")
		w.keys = w.keys[:1]
		last := w.start()
		e, err := last.Endpoint(t.Context(), "default", "helper")
		require.NoError(t, err)
		require.EqualValues(t, apiKey, e.APIKey)
	})
}

// content is the sealed part of a deployment.
type content struct {
	Salt    string         `json:"salt"`
	Request deploy.Request `json:"-"`
}

// row is the last revision in the database.
type row struct {
	id, hash        string
	sealed, request []byte
}

func (w *world) row(ctx context.Context) (r row, err error) {
	return r, w.db.Read().QueryRowContext(ctx, `SELECT r.id, r.spec_hash, d.sealed, r.sealed FROM deployments d, deployment_revisions r
		WHERE d.agent_name = 'helper' AND r.key = d.key AND r.revision = d.revision AND r.spec_hash = d.spec_hash`).Scan(&r.id, &r.hash, &r.sealed, &r.request)
}

// open returns the content of a row.
func (w *world) open(r row) (c content) {
	w.t.Helper()
	text, err := w.store().Keyring.Open(r.sealed, deployment.Sealed()[0].Place(key, "default"))
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(text, &c))
	text, err = w.store().Keyring.Open(r.request, deployment.Sealed()[1].Place(r.id, "default"))
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(text, &c.Request))
	return c
}

// A deployment that is read while its agent and its tool are changed has one state of both, and the
// hash of that.
func TestADeploymentIsOneState(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		ada := w.agents("default")
		const agents = "/api/v1/admin/agents/helper"
		tool := func(method, path string, n int) string {
			text := fmt.Sprintf("export default {name: 'count', description: '%d', call() {}}", n)
			return w.upload(method, "/api/v1/admin/tools"+path, "count.ts", text)["hash"].(string)
		}
		tools := map[string]int{} // from the hash of the file to its number
		tools[tool(http.MethodPost, "", 0)] = 0
		agent := ada.Get(agents).Want(http.StatusOK)
		agent["tools"] = []string{"count"}
		agent["systemPrompt"] = "0"
		ada.Put(agents, agent).Want(http.StatusOK)

		ctx, stop := context.WithCancel(t.Context())
		var rows []row
		deployed := make(chan error, 1)
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				_, err = h.Deploy(t.Context(), h.ada.Caller, "helper", bodies.DeployRequest{})
				r, reading := w.row(t.Context())
				err, rows = errors.Join(err, reading), append(rows, r)
			}
			deployed <- err
		}()
		for n := 1; n <= 30; n++ {
			agent["systemPrompt"] = strconv.Itoa(n)
			ada.Put(agents, agent).Want(http.StatusOK)
			tools[tool(http.MethodPut, "/count/file", n)] = n
		}
		stop()
		require.NoError(t, <-deployed)
		type state struct{ prompt, tool int }
		states := map[string]state{}
		for _, r := range rows {
			c := w.open(r)
			prompt, err := strconv.Atoi(c.Request.Config.SystemPrompt)
			require.NoError(t, err)
			now := state{prompt, tools[c.Request.CustomTools[0].Hash]}
			require.Contains(t, []int{prompt, prompt - 1}, now.tool, "the prompt is changed first")
			if before, ok := states[r.hash]; ok {
				require.Equal(t, before, now)
			}
			states[r.hash] = now
		}
	})
}

// A deployment of an earlier version has not drifted: the hash of the same configuration is the
// same.
func TestTheHashOfAConfigurationIsStable(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		stored, err := w.row(t.Context())
		require.NoError(t, err)
		content := w.open(stored)
		text, err := json.Marshal(struct {
			Salt          string
			Config        agent.Agent
			Tools, Skills *struct{}
		}{Salt: content.Salt, Config: content.Request.Config})
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), stored.hash)
	})
}

// The request of a row that has another tenant now, or that an earlier version sealed, is not
// opened. Rebind binds the latter.
func TestRequestsAreBoundToTheirTenant(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		endpoint := func(tenantID string) (deployment.Endpoint, error) {
			return w.start(func(c *deployment.Config) { c.Driver = nil }).Endpoint(t.Context(), tenantID, "helper")
		}
		first := w.start()
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		apiKey := first.reach("running")["apiKey"]
		require.NoError(t, first.Close())
		exec := func(query string, args ...any) {
			_, err := w.db.Write().ExecContext(t.Context(), query, args...)
			require.NoError(t, err)
		}
		exec(`UPDATE deployments SET tenant_id = 'other'`)
		_, err := endpoint("other")
		require.ErrorIs(t, err, secret.ErrCorrupt)
		ring, err := secret.Parse(w.keys...)
		require.NoError(t, err)
		n, err := w.store().Rebind(t.Context(), deployment.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
		exec(`UPDATE deployments SET tenant_id = 'default'`)

		var sealed []byte
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT sealed FROM deployments`).Scan(&sealed))
		plain, err := ring.Open(sealed, secret.AAD("deployments", "sealed", "default-helper", "default"))
		require.NoError(t, err)
		exec(`UPDATE deployments SET sealed = $1`, ring.Seal(plain, secret.AAD("deployments", "sealed", "default-helper")))
		_, err = endpoint("default")
		require.ErrorIs(t, err, secret.ErrCorrupt)
		n, err = w.store().Rebind(t.Context(), deployment.Sealed()...)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		e, err := endpoint("default")
		require.NoError(t, err)
		require.EqualValues(t, apiKey, e.APIKey)
	})
}

// What cannot be opened is logged, and the runtime continues.
func TestDamagedRow(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		require.NoError(t, h.Close())
		w.exec(`UPDATE deployments SET state = 'starting', sealed = key_digest`)
		log, began := &logtest.Buffer{}, time.Now()
		w.start(func(c *deployment.Config) { c.Store.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		require.Eventually(t, func() bool { return strings.Count(log.String(), `msg="reconcile deployment"`) >= 3 }, patience, pause)
		require.Greater(t, time.Since(began), time.Second, "about once a second: a busy machine delays the first one")
		require.Equal(t, []int64{1}, w.alive())
	})
}

// A former version had no revisions: the request is next to the key. The hub continues such a
// deployment, and one that cannot be opened does not prevent that.
func TestRowsOfAFormerVersion(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.agent("default", "other")
		w.agent("default", "third")
		h := w.start()
		const other = "/api/v1/admin/agents/other/deploy"
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.ada.Post(other, nil).Want(http.StatusAccepted)
		first := h.reach("running")
		require.NoError(t, h.Close())
		stored, err := w.row(t.Context())
		require.NoError(t, err)
		request := w.open(stored).Request
		request.Env = map[string]agent.Secret{deploy.EnvAPIKey: agent.Secret(first["apiKey"].(string))}
		former := map[string]any{"apiKey": first["apiKey"], "salt": w.open(stored).Salt, "request": request}
		text, err := json.Marshal(former)
		require.NoError(t, err)
		_, err = w.db.Write().ExecContext(t.Context(), `UPDATE deployments SET serving = NULL, rollout = '', draining = '[]', machine = '', sealed = $1,
			key_digest = CASE WHEN agent_name = 'other' THEN NULL ELSE key_digest END`,
			w.store().Keyring.Seal(text, deployment.Sealed()[0].Place(key, "default"))) // that of the other one is not for its place
		require.NoError(t, err)
		w.exec(`DELETE FROM deployment_revisions`)

		keys, log := w.keys, &logtest.Buffer{}
		w.keys = []string{secret.Generate()}
		h = w.start(func(c *deployment.Config) { c.Store.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		const third = "/api/v1/admin/agents/third/deploy"
		for revision := range 3 { // the hub controls others
			h.ada.Post(third, apitest.Object{"force": true}).Want(http.StatusAccepted)
			require.Eventually(t, func() bool {
				return h.ada.Get(third).Want(http.StatusOK)["servingRevision"] == float64(revision+1)
			}, patience, pause)
		}
		var left, held int
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(),
			`SELECT COUNT(*), COUNT(CASE WHEN hub_id IN (SELECT id FROM hubs) THEN 1 END) FROM deployments WHERE serving IS NULL`).Scan(&left, &held))
		require.Equal(t, []int{2, 0}, []int{left, held}, "a hub without the key leaves them to another one")
		require.NoError(t, h.Close())
		require.Equal(t, 2, strings.Count(log.String(), "open deployment of an older version"), "once for each: %s", log)
		applied := w.driver.Applied()

		w.keys = append(keys, w.keys...)
		h = w.start()
		s := h.serves(1)
		require.Equal(t, []any{"running", first["startedAt"], first["apiKey"], false}, []any{s["state"], s["startedAt"], s["apiKey"], s["configDrift"]})
		require.Equal(t, applied, w.driver.Applied(), "its runtime continues")
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM deployment_readers WHERE user_id = '*'`).Scan(&left))
		require.Zero(t, left, "its readers are known")
		stored, err = w.row(t.Context())
		require.NoError(t, err)
		require.Empty(t, w.open(stored).Request.Env, "the key is in one place")
		require.Equal(t, 1.0, h.ada.Get(path + "/revisions").Want(http.StatusOK)["total"])
		h.redeploy("second", 2)
		h.ada.Post(path+"/rollback", nil).Want(http.StatusAccepted)
		h.serves(3)
		require.Equal(t, "first", w.driver.Request(key).Config.SystemPrompt)
		h.ada.Delete(other).Want(http.StatusNoContent)
		require.Eventually(t, func() bool {
			var n int
			err := w.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM deployments`).Scan(&n)
			return err == nil && n == 2
		}, patience, pause)
	})
}

// A deployment that ran when the hub was upgraded has a revision that serves, whatever is observed.
func TestARowOfAFormerVersionServes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		require.NoError(t, h.Close())
		f := w.failing()
		f.set("Observe", errors.New("the platform is busy"))
		for state, serving := range map[string]int{"running": 1, "unhealthy": 1, "starting": 0, "failed": 0} {
			_, err := w.db.Write().ExecContext(t.Context(), `UPDATE deployments SET serving = NULL, state = $1`, state)
			require.NoError(t, err)
			h := w.start(func(c *deployment.Config) { c.Driver = f })
			var now sql.NullInt64
			require.Eventually(t, func() bool {
				require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT serving FROM deployments`).Scan(&now))
				return now.Valid
			}, patience, pause)
			require.EqualValues(t, serving, now.Int64, state)
			require.NoError(t, h.Close())
		}
	})
}
