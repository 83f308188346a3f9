package session_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

const (
	usersPath   = "/api/v1/admin/users"
	invitesPath = "/api/v1/admin/invites"
	tokensPath  = "/api/v1/cli/tokens"
	issuePath   = "/api/v1/cli/issue-token"
	publicURL   = "https://hub.example.com"
	password    = "correct horse battery"
)

// cluster is one database, and the replicas of identity that serve it over HTTP.
type cluster struct {
	t      *testing.T
	url    string // of the database
	keys   string
	passed atomic.Int64 // offset of the replicas' clock, in nanoseconds
	epoch  time.Time
	*replica
}

// replica is one process of the hub, as far as a test can have several.
type replica struct {
	cluster *cluster
	db      *db.DB
	store   *store.Store
	audit   *sqlaudit.Store
	base    string
	http    *http.Client

	setupToken string // with which this replica allows the first-run setup
}

// eachWithRoot runs a test on both engines, in a cluster with root as its only user.
func eachWithRoot(t *testing.T, test func(t *testing.T, c *cluster, root user)) {
	t.Helper()
	each(t, func(t *testing.T, c *cluster) {
		c.start(nil)
		body := c.setup()
		test(t, c, c.signedIn(body))
	})
}

// oneWithRoot is eachWithRoot on SQLite only.
func oneWithRoot(t *testing.T, test func(t *testing.T, c *cluster, root user)) {
	t.Helper()
	c, root := clusterWithRoot(t)
	test(t, c, root)
}

// clusterWithRoot returns such a cluster on SQLite, for errors that do not depend on the engine.
func clusterWithRoot(t *testing.T) (*cluster, user) {
	t.Helper()
	t.Parallel()
	s := onSQLite(t, nil)
	return s.cluster, s.cluster.signedIn(s.setup())
}

func (c *cluster) now() time.Time { return c.epoch.Add(time.Duration(c.passed.Load())) }

func (c *cluster) wait(d time.Duration) { c.passed.Add(int64(d)) }

// open starts one more replica, which ends with the test.
func (c *cluster) open() *replica { return c.start(nil).replica }

// user is a user who has signed in.
type user struct{ id, name, token string }

func (c *cluster) signedIn(body object) user {
	u := body.object("user")
	return user{u["id"].(string), u["username"].(string), body["access_token"].(string)}
}

// join creates an invitation and registers with it.
func (c *cluster) join(admin user, role, name string) user {
	c.t.Helper()
	made := c.post(admin.token, invitesPath, object{"role": role}).want(http.StatusCreated)
	return c.signedIn(c.register(made["token"], name).want(http.StatusCreated))
}

func (r *replica) register(token any, name string) response {
	return r.post("", "/auth/register", object{"token": token, "username": name, "password": password})
}

func (r *replica) login(name, password string) response {
	return r.post("", "/auth/login", object{"username": name, "password": password})
}

// issue makes a CLI token that does not expire.
func (r *replica) issue(u user) (id, token string) {
	body := r.post(u.token, issuePath, object{"name": "ci"}).want(http.StatusCreated)
	return body["id"].(string), body["token"].(string)
}

type object map[string]any

func (o object) object(name string) object { return o[name].(map[string]any) }

// items returns the items of a list.
func (o object) items() (all []object) {
	for _, item := range o["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

type response struct {
	t      *testing.T
	status int
	header http.Header
	text   string
	body   object // nil where there is none
}

// want checks the status, and returns the body.
func (res response) want(status int) object {
	res.t.Helper()
	require.Equal(res.t, status, res.status, "%s", res.text)
	return res.body
}

// wantError checks the status and the code of an error, and returns its body.
func (res response) wantError(status int, code wire.Code) object {
	res.t.Helper()
	body := res.want(status)
	require.Equal(res.t, string(code), body["code"], "%s", res.text)
	require.NotEmpty(res.t, body["message"])
	return body
}

func (r *replica) get(token, path string) response { return r.call(token, http.MethodGet, path, nil) }
func (r *replica) post(token, path string, body any) response {
	return r.call(token, http.MethodPost, path, body)
}
func (r *replica) patch(token, path string, body any) response {
	return r.call(token, http.MethodPatch, path, body)
}
func (r *replica) delete(token, path string) response {
	return r.call(token, http.MethodDelete, path, nil)
}

// call sends a body that is a string unchanged, and anything else as JSON.
func (r *replica) call(token, method, path string, body any) response {
	t := r.cluster.t
	t.Helper()
	text, ok := body.(string)
	if !ok && body != nil {
		data, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(data)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, r.base+path, bytes.NewBufferString(text))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return r.do(req)
}

// log is what was recorded since the entry with the id after, as "action target detail".
func (c *cluster) log(after uint64) (lines []string) {
	c.t.Helper()
	for e, err := range c.entries() {
		require.NoError(c.t, err)
		if e.ID > after {
			lines = append(lines, e.Action+" "+e.TargetName+" "+string(e.Detail))
		}
	}
	return lines
}

// head is the id of the last entry.
func (c *cluster) head() uint64 {
	c.t.Helper()
	head, err := c.audit.Head(c.t.Context(), api.DefaultTenant)
	require.NoError(c.t, err)
	return head.ID
}
