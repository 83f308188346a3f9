package identity_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/identity"
)

const (
	usersPath   = "/api/v1/admin/users"
	invitesPath = "/api/v1/admin/invites"
	tokensPath  = "/api/v1/cli/tokens"
	issuePath   = "/api/v1/cli/issue-token"
	publicURL   = "https://hub.example.com"
	password    = "correct horse battery"
)

// office is a hub of only identity: one database, and replicas that serve it over HTTP.
type office struct {
	t      *testing.T
	url    string // of the database
	keys   string
	passed atomic.Int64 // offset of the replicas' clock, in nanoseconds
	start  time.Time
	*replica
}

// replica is one process of the hub, as far as a test can have several.
type replica struct {
	o     *office
	db    *db.DB
	audit *sqlaudit.Store
	base  string
	http  *http.Client

	setupToken string // with which this replica allows the first-run setup
}

// eachOffice runs a test on both engines, in an office where root is the only user.
func eachOffice(t *testing.T, test func(t *testing.T, o *office, root person)) {
	t.Helper()
	each(t, func(t *testing.T, o *office) {
		o.launch(nil)
		body := o.setup()
		test(t, o, o.signedIn(body))
	})
}

// anOffice is such an office on one engine, for faults that are found before a database is asked.
func anOffice(t *testing.T) (*office, person) {
	t.Helper()
	t.Parallel()
	l := onSQLite(t, nil)
	return l.o, l.o.signedIn(l.setup())
}

func (o *office) now() time.Time { return o.start.Add(time.Duration(o.passed.Load())) }

func (o *office) wait(d time.Duration) { o.passed.Add(int64(d)) }

// open starts one more replica, which ends with the test.
func (o *office) open() *replica { return o.launch(nil).replica }

// person is a user who has signed in.
type person struct{ id, name, token string }

func (o *office) signedIn(body object) person {
	user := body.object("user")
	return person{user["id"].(string), user["username"].(string), body["access_token"].(string)}
}

// join creates an invitation and registers with it.
func (o *office) join(admin person, role, name string) person {
	o.t.Helper()
	made := o.post(admin.token, invitesPath, object{"role": role}).want(http.StatusCreated)
	return o.signedIn(o.register(made["token"], name).want(http.StatusCreated))
}

func (r *replica) register(token any, name string) answer {
	return r.post("", "/auth/register", object{"token": token, "username": name, "password": password})
}

func (r *replica) login(name, password string) answer {
	return r.post("", "/auth/login", object{"username": name, "password": password})
}

// issue makes a CLI token that does not expire.
func (r *replica) issue(p person) (id, token string) {
	body := r.post(p.token, issuePath, object{"name": "ci"}).want(http.StatusCreated)
	return body["id"].(string), body["token"].(string)
}

type object map[string]any

func (o object) object(name string) object { return o[name].(map[string]any) }

// items are those of a list answer.
func (o object) items() (all []object) {
	for _, item := range o["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

type answer struct {
	t      *testing.T
	status int
	header http.Header
	text   string
	body   object // nil where there is none
}

// want is the body, once the status is right.
func (a answer) want(status int) object {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.text)
	return a.body
}

// refused holds an error to its status and code, and is its body.
func (a answer) refused(status int, code api.Code) object {
	a.t.Helper()
	body := a.want(status)
	require.Equal(a.t, string(code), body["code"], "%s", a.text)
	require.NotEmpty(a.t, body["message"])
	return body
}

func (r *replica) get(token, path string) answer { return r.call(token, http.MethodGet, path, nil) }
func (r *replica) post(token, path string, body any) answer {
	return r.call(token, http.MethodPost, path, body)
}
func (r *replica) patch(token, path string, body any) answer {
	return r.call(token, http.MethodPatch, path, body)
}
func (r *replica) delete(token, path string) answer {
	return r.call(token, http.MethodDelete, path, nil)
}

// call sends a body that is a string unchanged, and anything else as JSON.
func (r *replica) call(token, method, path string, body any) answer {
	t := r.o.t
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
func (o *office) log(after uint64) (lines []string) {
	o.t.Helper()
	for e, err := range o.entries() {
		require.NoError(o.t, err)
		if e.ID > after {
			lines = append(lines, e.Action+" "+e.TargetName+" "+string(e.Detail))
		}
	}
	return lines
}

// head is the id of the last entry.
func (o *office) head() uint64 {
	o.t.Helper()
	head, err := o.audit.Head(o.t.Context(), identity.DefaultTenant)
	require.NoError(o.t, err)
	return head.ID
}
