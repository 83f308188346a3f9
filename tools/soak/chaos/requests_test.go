package chaos_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// No request has the status 500, or one that the document does not have, and nothing of it remains
// in memory. The audit log verifies, and no runtime is left.
func TestRandomRequests(t *testing.T) {
	if !inNamespace(t) { // the address of a provider may be that of its vendor
		return
	}
	t.Run("hub", func(t *testing.T) {
		metrics := freeAddress(t)
		in := newInstallation(t, 1, false, "HUB_METRICS_ADDR="+metrics)
		s := newSessions(t, in)
		f := newFuzzer(t, "hub")
		f.authorize, f.rejected = s.authorize, s.replace
		var deployed struct{ ProviderID string }
		require.NoError(t, s.admin.call(t.Context(), http.MethodGet, "/api/v1/admin/agents/"+agentName, nil, &deployed))
		// The first user creates the others, and the upstream rejects requests of another protocol.
		f.names.hidden = []string{s.admin.user, "admin", deployed.ProviderID, in.upstream.URL}
		f.deployed = []string{movedAgent}
		f.names.keep("agent", agentName, movedAgent, payingAgent)
		f.names.keep("budget", agentName, s.admin.users[1].user)
		f.sendAll(t, in.urls[0], func() (usage, error) { return use(in.hubs[0].pid(), "http://"+metrics+"/metrics") })
		s.requireAudit(t)
		k := &checker{in: in, c: s.admin}
		for _, name := range []string{agentName, movedAgent, payingAgent} {
			err := s.admin.call(t.Context(), http.MethodDelete, "/api/v1/admin/agents/"+name+"/deploy", nil, nil)
			if !errors.Is(err, errDenied) { // there is none
				require.NoError(t, errors.Join(err, in.await(t.Context(), s.admin, name, "not_deployed")))
			}
		}
		k.checkProcesses(t.Context(), 0)
		require.Empty(t, k.findings)
		require.False(t, t.Failed(), in.logs())
	})
	t.Run("runtime", func(t *testing.T) {
		upstream := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"))))
		const key = "0123456789abcdef"
		h := startHost(t, upstream.URL, "", "AGENT_HTTP_API_KEY="+key)
		f := newFuzzer(t, "runtime")
		f.names.keep("agent", agentName)
		f.authorize = func(r *rand.Rand, req *http.Request) int {
			if r.IntN(20) > 0 {
				req.Header.Set("X-Api-Key", key)
			}
			return 0
		}
		f.rejected = func(int) {}
		f.sendAll(t, h.url, func() (usage, error) { return use(h.pid(), h.metrics) })
		require.False(t, t.Failed(), h.failures())
	})
}

// sessions are users with roles. A user whose session has ended is replaced.
type sessions struct {
	in *installation
	t  *testing.T
	mu sync.Mutex

	admin  *client
	tokens []string
	made   int
}

var roles = []string{"admin", "maintainer", "member"}

func newSessions(t *testing.T, in *installation) *sessions {
	s := &sessions{in: in, t: t, admin: in.setUp(t), tokens: make([]string, len(roles))}
	var issued struct{ Token string }
	require.NoError(t, s.admin.call(t.Context(), http.MethodPost, "/api/v1/cli/issue-token", object{"name": "requests"}, &issued))
	s.admin.token = issued.Token // which does not expire
	return s
}

// authorize sets the credential of a random user, or none, and returns the index of its role.
func (s *sessions) authorize(r *rand.Rand, req *http.Request) (role int) {
	role = r.IntN(len(roles) + 1)
	if role == len(roles) {
		return role
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[role] == "" {
		s.tokens[role] = s.create(roles[role])
	}
	req.Header.Set("Authorization", "Bearer "+s.tokens[role])
	return role
}

func (s *sessions) requireAudit(t *testing.T) {
	var verified struct {
		OK      bool
		Checked int
	}
	require.NoError(t, s.admin.call(t.Context(), http.MethodGet, "/api/v1/admin/audit-logs/verify", nil, &verified))
	require.True(t, verified.OK)
	fmt.Println("the audit log has", verified.Checked, "entries")
}

// replace discards a token that was rejected.
func (s *sessions) replace(role int) {
	if role < len(roles) {
		s.mu.Lock()
		s.tokens[role] = ""
		s.mu.Unlock()
	}
}

// create creates a user and returns the access token. The caller has the lock.
func (s *sessions) create(role string) string {
	s.made++
	name := fmt.Sprint("user", s.made)
	var pair struct {
		Access string `json:"access_token"`
	}
	const first = "a password to change"
	ctx := s.t.Context()
	if s.admin.call(ctx, http.MethodPost, "/api/v1/admin/users", object{"username": name, "password": first, "role": role}, nil) != nil ||
		s.admin.call(ctx, http.MethodPost, "/auth/login", object{"username": name, "password": first}, &pair) != nil {
		return ""
	}
	c := &client{urls: s.in.urls, token: pair.Access, journal: newJournal()}
	_ = c.call(ctx, http.MethodPost, "/auth/change-password", object{"old_password": first, "new_password": password}, nil)
	return pair.Access
}
