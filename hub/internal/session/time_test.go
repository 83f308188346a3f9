package session_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// Times have six sub-second digits also where all of them are zero, in responses and in the details
// of the audit log.
func TestTimesHaveSixDigits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, dbtest.SQLite(t, migrations...))
	c.epoch = c.epoch.Truncate(time.Second)
	s := c.start(nil)
	root := s.cluster.signedIn(s.setup())
	invite := s.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)
	var texts []string
	fields := func(times int, res response) {
		t.Helper()
		require.Less(t, res.status, 300, res.text)
		require.Equal(t, times, strings.Count(res.text, "T12:00:00"), res.text)
		texts = append(texts, res.text)
	}
	fields(1, s.get("", "/auth/invite/"+invite.text("token")))
	s.register(invite["token"], "ada").want(http.StatusCreated)
	fields(2, s.post(root.token, invitesPath, object{"role": "member"}))
	fields(5, s.get(root.token, invitesPath))
	fields(2, s.post(root.token, issuePath, object{"name": "ci", "expiresInDays": 1}))
	fields(2, s.get(root.token, tokensPath))
	fields(4, s.get(root.token, usersPath))
	fields(2, s.get(root.token, "/auth/sessions"))
	details := strings.Join(s.cluster.log(0), "\n")
	require.Equal(t, 3, strings.Count(details, "T12:00:00"), "of two invitations and a token: %s", details)
	for _, at := range regexp.MustCompile(`\d\dT[^"]*`).FindAllString(strings.Join(append(texts, details), "\n"), -1) {
		require.Regexp(t, `^\d\dT12:00:00\.000000Z$`, at)
	}
}
