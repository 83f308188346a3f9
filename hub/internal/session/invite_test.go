package session_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestInvites(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		before := c.head()
		made := c.post(root.token, invitesPath, object{"role": "maintainer", "note": " for Ada\nof research "}).want(http.StatusCreated)
		id, token := made["id"].(string), made["token"].(string)
		require.Regexp(t, `^inv_[0-9a-f]{64}$`, token)
		require.True(t, strings.HasPrefix(made["url"].(string), publicURL+"/"))
		require.True(t, strings.HasSuffix(made["url"].(string), token))
		want := object{
			"id": id, "role": "maintainer", "note": "for Ada\nof research", "status": "pending", "createdBy": "root",
			"createdAt": "2026-03-01T12:00:00.123456Z", "expiresAt": "2026-03-08T12:00:00.123456Z",
		}
		list := c.get(root.token, invitesPath)
		require.NotContains(t, list.text, token, "only the creation returns the token")
		require.EqualValues(t, 1, list.want(http.StatusOK)["total"])
		require.Equal(t, want, list.body.items()[0])
		detail := `{"role":"maintainer","note":"for Ada\nof research","expiresAt":"2026-03-08T12:00:00.123456Z"}`
		require.Equal(t, []string{"invite.create for Ada\nof research " + detail}, c.log(before))

		c.wait(time.Minute)
		check := c.get("", "/auth/invite/"+token).want(http.StatusOK)
		require.Equal(t, object{"valid": true, "role": "maintainer", "expires_at": "2026-03-08T12:00:00.123456Z"}, check)
		before = c.head()
		body := c.post("", "/auth/register", object{
			"token": token, "username": "Ada", "password": password, "display_name": " Ada Lovelace ", "role": "admin", "tenant_id": "other",
		}).want(http.StatusCreated)
		user := body.object("user")
		require.Equal(t, object{
			"id": user["id"], "username": "Ada", "display_name": "Ada Lovelace", "role": "maintainer", "tenant_id": "default", "org_id": "default",
		}, user)
		require.Equal(t, "Ada", c.get(c.signedIn(body).token, "/auth/userinfo").want(http.StatusOK)["username"])
		require.Equal(t, []string{`auth.register Ada {"inviteId":"` + id + `","role":"maintainer"}`}, c.log(before))
		want["status"], want["usedBy"], want["usedAt"] = "used", "Ada", "2026-03-01T12:01:00.123456Z"
		require.Equal(t, want, c.get(root.token, invitesPath).want(http.StatusOK).items()[0])
		require.NotNil(t, c.get(root.token, usersPath+"/"+user["id"].(string)).want(http.StatusOK)["lastLoginAt"])

		// The newest comes first.
		c.post(root.token, invitesPath, object{"role": "member", "note": nil}).want(http.StatusCreated)
		page := c.get(root.token, invitesPath+"?page_size=1").want(http.StatusOK)
		require.EqualValues(t, 2, page["total"])
		require.Equal(t, []any{"member"}, column(page, "role"))
	})
}

// All invites that cannot be used have the same response.
func TestInvitesThatAreNotValid(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		invite := func() (id, token string) {
			made := c.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)
			return made["id"].(string), made["token"].(string)
		}
		expiredID, expired := invite()
		c.wait(7*24*time.Hour - time.Microsecond)
		root = c.signedIn(c.login("root", password).want(http.StatusOK))
		c.get("", "/auth/invite/"+expired).want(http.StatusOK)
		c.wait(time.Microsecond)
		usedID, used := invite()
		c.register(used, "ada").want(http.StatusCreated)
		revokedID, revoked := invite()
		before := c.head()
		c.delete(root.token, invitesPath+"/"+revokedID).want(http.StatusNoContent)
		require.Len(t, c.log(before), 1)
		require.Contains(t, c.log(before)[0], "invite.revoke ")
		c.delete(root.token, invitesPath+"/"+revokedID).want(http.StatusNoContent)
		c.delete(root.token, invitesPath+"/"+usedID).wantError(http.StatusConflict, wire.Conflict)
		require.Len(t, c.log(before), 1)

		before = c.head()
		responses := map[string]bool{}
		for _, token := range []string{expired, used, revoked, "inv_" + strings.Repeat("0", 64), "x", revokedID} {
			for _, body := range []object{
				c.get("", "/auth/invite/"+token).wantError(http.StatusNotFound, code.InviteInvalid),
				c.register(token, "eve").wantError(http.StatusNotFound, code.InviteInvalid),
				c.register(token, "ROOT").wantError(http.StatusNotFound, code.InviteInvalid),
			} {
				delete(body, "requestId")
				require.Len(t, body, 2)
				responses[body["message"].(string)] = true
			}
		}
		require.Len(t, responses, 1)
		require.Equal(t, before, c.head())
		statuses := map[any]any{}
		for _, i := range c.get(root.token, invitesPath).want(http.StatusOK).items() {
			statuses[i["id"]] = i["status"]
		}
		require.Equal(t, map[any]any{expiredID: "expired", usedID: "used", revokedID: "revoked"}, statuses)
		c.delete(root.token, invitesPath+"/"+expiredID).want(http.StatusNoContent)
	})
}

func TestInviteFaults(t *testing.T) {
	c, root := clusterWithRoot(t)
	for name, row := range map[string]struct {
		body  object
		field string
	}{
		"no role":             {object{}, "role"},
		"an unknown role":     {object{"role": "owner"}, "role"},
		"a role of no string": {object{"role": 1}, "role"},
		"a long note":         {object{"role": "member", "note": strings.Repeat("ü", 501)}, "note"},
		"control characters":  {object{"role": "member", "note": "\x1b[2J"}, "note"},
		"a note of no string": {object{"role": "member", "note": []int{1}}, "note"},
	} {
		refusal := c.post(root.token, invitesPath, row.body).want(http.StatusBadRequest)
		require.Contains(t, refusal.object("data").object("fields")[row.field], "must", name)
	}
	require.EqualValues(t, 0, c.get(root.token, invitesPath).want(http.StatusOK)["total"])
}

// The open invites of an admin are revoked when the admin loses the role.
func TestInvitesOfAFormerAdmin(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		for name, lose := range map[string]func(u user){
			"demoted": func(u user) { c.patch(root.token, usersPath+"/"+u.id, object{"role": "member"}).want(http.StatusOK) },
			"disabled": func(u user) {
				c.patch(root.token, usersPath+"/"+u.id, object{"status": "disabled"}).want(http.StatusOK)
			},
			"deleted": func(u user) { c.delete(root.token, usersPath+"/"+u.id).want(http.StatusNoContent) },
		} {
			u := c.join(root, "admin", name)
			token := c.post(u.token, invitesPath, object{"role": "admin", "note": name}).want(http.StatusCreated)["token"].(string)
			before := c.head()
			lose(u)
			c.register(token, "way-back").wantError(http.StatusNotFound, code.InviteInvalid)
			log := c.log(before)
			require.Len(t, log, 2, name)
			require.Contains(t, log[0], "user.")
			require.Contains(t, log[1], "invite.revoke "+name)
		}
		// The invites of others, and of a user who remains an admin, are unchanged.
		token := c.post(root.token, invitesPath, object{"role": "admin"}).want(http.StatusCreated)["token"]
		c.patch(root.token, usersPath+"/"+root.id, object{"displayName": "Root"}).want(http.StatusOK)
		c.register(token, "second").want(http.StatusCreated)
	})
}

func TestRegisterFaults(t *testing.T) {
	c, root := clusterWithRoot(t)
	token := c.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)["token"].(string)
	before := c.head()
	for name, row := range map[string]struct {
		change object
		field  string
	}{
		"no token":             {object{"token": ""}, "token"},
		"a bad username":       {object{"username": "a b"}, "username"},
		"a short password":     {object{"password": "1234567"}, "password"},
		"a bad display name":   {object{"display_name": "a\nb"}, "display_name"},
		"a token of no string": {object{"token": 1}, "token"},
	} {
		body := object{"token": token, "username": "ada", "password": password}
		maps.Copy(body, row.change)
		refusal := c.post("", "/auth/register", body).want(http.StatusBadRequest)
		require.Contains(t, refusal.object("data").object("fields")[row.field], "must", name)
	}
	c.register(token, "Root").wantError(http.StatusConflict, wire.NameTaken)
	require.Equal(t, before, c.head())
	c.register(token, "ada").want(http.StatusCreated) // nothing of that has used it up
}

// One invite creates one user, even with concurrent registrations on several replicas. The others
// change nothing.
func TestRaceForAnInvite(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		replicas := []*replica{c.replica, c.open()}
		token := c.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)["token"]
		before := c.head()
		var mu sync.Mutex
		var wait sync.WaitGroup
		statuses := map[int]int{}
		for i := range 8 {
			wait.Go(func() {
				res := replicas[i%2].register(token, "user"+string(rune('a'+i)))
				mu.Lock()
				defer mu.Unlock()
				if statuses[res.status]++; res.status != http.StatusCreated {
					res.wantError(http.StatusNotFound, code.InviteInvalid)
				}
			})
		}
		wait.Wait()
		require.Equal(t, map[int]int{http.StatusCreated: 1, http.StatusNotFound: 7}, statuses)
		require.EqualValues(t, 2, c.get(root.token, usersPath).want(http.StatusOK)["total"])
		require.Len(t, c.log(before), 1)
	})
}

// Two registrations with one name: one succeeds, and the invite of the other remains usable.
func TestRaceForAName(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		var tokens [2]any
		for i := range tokens {
			tokens[i] = c.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)["token"]
		}
		var responses [2]response
		var wait sync.WaitGroup
		for i, name := range []string{"Ada", "aDA"} {
			wait.Go(func() { responses[i] = c.register(tokens[i], name) })
		}
		wait.Wait()
		lost := 0
		if responses[0].status == http.StatusCreated {
			lost = 1
		}
		responses[1-lost].want(http.StatusCreated)
		responses[lost].wantError(http.StatusConflict, wire.NameTaken)
		c.register(tokens[lost], "grace").want(http.StatusCreated)
	})
}
