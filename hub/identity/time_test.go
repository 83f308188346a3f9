package identity_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

// Times have six sub-second digits also where all of them are zero, in responses and in the details
// of the audit log.
func TestTimesHaveSixDigits(t *testing.T) {
	t.Parallel()
	o := newOffice(t, dbtest.SQLite(t))
	o.start = o.start.Truncate(time.Second)
	l := o.launch(nil)
	root := l.o.signedIn(l.setup())
	invite := l.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)
	var texts []string
	told := func(times int, a answer) {
		t.Helper()
		require.Less(t, a.status, 300, a.text)
		require.Equal(t, times, strings.Count(a.text, "T12:00:00"), a.text)
		texts = append(texts, a.text)
	}
	told(1, l.get("", "/auth/invite/"+invite.text("token")))
	l.register(invite["token"], "ada").want(http.StatusCreated)
	told(2, l.post(root.token, invitesPath, object{"role": "member"}))
	told(5, l.get(root.token, invitesPath))
	told(2, l.post(root.token, issuePath, object{"name": "ci", "expiresInDays": 1}))
	told(2, l.get(root.token, tokensPath))
	told(4, l.get(root.token, usersPath))
	told(2, l.get(root.token, "/auth/sessions"))
	details := strings.Join(l.o.log(0), "\n")
	require.Equal(t, 3, strings.Count(details, "T12:00:00"), "of two invitations and a token: %s", details)
	for _, at := range regexp.MustCompile(`\d\dT[^"]*`).FindAllString(strings.Join(append(texts, details), "\n"), -1) {
		require.Regexp(t, `^\d\dT12:00:00\.000000Z$`, at)
	}
}
