package identity_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

func TestInvites(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		before := o.head()
		made := o.post(root.token, invitesPath, object{"role": "maintainer", "note": " for Ada\nof research "}).want(http.StatusCreated)
		id, token := made["id"].(string), made["token"].(string)
		require.Regexp(t, `^inv_[0-9a-f]{64}$`, token)
		require.True(t, strings.HasPrefix(made["url"].(string), publicURL+"/"))
		require.True(t, strings.HasSuffix(made["url"].(string), token))
		want := object{
			"id": id, "role": "maintainer", "note": "for Ada\nof research", "status": "pending", "createdBy": "root",
			"createdAt": "2026-03-01T12:00:00.123456Z", "expiresAt": "2026-03-08T12:00:00.123456Z",
		}
		list := o.get(root.token, invitesPath)
		require.NotContains(t, list.text, token, "the token is told once")
		require.EqualValues(t, 1, list.want(http.StatusOK)["total"])
		require.Equal(t, want, list.body.items()[0])
		detail := `{"role":"maintainer","note":"for Ada\nof research","expiresAt":"2026-03-08T12:00:00.123456Z"}`
		require.Equal(t, []string{"invite.create for Ada\nof research " + detail}, o.log(before))

		o.wait(time.Minute)
		check := o.get("", "/auth/invite/"+token).want(http.StatusOK)
		require.Equal(t, object{"valid": true, "role": "maintainer", "expires_at": "2026-03-08T12:00:00.123456Z"}, check)
		before = o.head()
		body := o.post("", "/auth/register", object{
			"token": token, "username": "Ada", "password": password, "display_name": " Ada Lovelace ", "role": "admin", "tenant_id": "other",
		}).want(http.StatusCreated)
		user := body.object("user")
		require.Equal(t, object{
			"id": user["id"], "username": "Ada", "display_name": "Ada Lovelace", "role": "maintainer", "tenant_id": "default", "org_id": "default",
		}, user)
		require.Equal(t, "Ada", o.get(o.signedIn(body).token, "/auth/userinfo").want(http.StatusOK)["username"])
		require.Equal(t, []string{`auth.register Ada {"inviteId":"` + id + `","role":"maintainer"}`}, o.log(before))
		want["status"], want["usedBy"], want["usedAt"] = "used", "Ada", "2026-03-01T12:01:00.123456Z"
		require.Equal(t, want, o.get(root.token, invitesPath).want(http.StatusOK).items()[0])
		require.NotNil(t, o.get(root.token, usersPath+"/"+user["id"].(string)).want(http.StatusOK)["lastLoginAt"])

		// The newest comes first.
		o.post(root.token, invitesPath, object{"role": "member", "note": nil}).want(http.StatusCreated)
		page := o.get(root.token, invitesPath+"?page_size=1").want(http.StatusOK)
		require.EqualValues(t, 2, page["total"])
		require.Equal(t, []any{"member"}, column(page, "role"))
	})
}

// All invites that cannot be used have the same response.
func TestInvitesThatAreNotValid(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		invite := func() (id, token string) {
			made := o.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)
			return made["id"].(string), made["token"].(string)
		}
		expiredID, expired := invite()
		o.wait(7*24*time.Hour - time.Microsecond)
		root = o.signedIn(o.login("root", password).want(http.StatusOK))
		o.get("", "/auth/invite/"+expired).want(http.StatusOK)
		o.wait(time.Microsecond)
		usedID, used := invite()
		o.register(used, "ada").want(http.StatusCreated)
		revokedID, revoked := invite()
		before := o.head()
		o.delete(root.token, invitesPath+"/"+revokedID).want(http.StatusNoContent)
		require.Len(t, o.log(before), 1)
		require.Contains(t, o.log(before)[0], "invite.revoke ")
		o.delete(root.token, invitesPath+"/"+revokedID).want(http.StatusNoContent)
		o.delete(root.token, invitesPath+"/"+usedID).refused(http.StatusConflict, api.Conflict)
		require.Len(t, o.log(before), 1)

		before = o.head()
		answers := map[string]bool{}
		for _, token := range []string{expired, used, revoked, "inv_" + strings.Repeat("0", 64), "x", revokedID} {
			for _, body := range []object{
				o.get("", "/auth/invite/"+token).refused(http.StatusNotFound, api.InviteInvalid),
				o.register(token, "eve").refused(http.StatusNotFound, api.InviteInvalid),
				o.register(token, "ROOT").refused(http.StatusNotFound, api.InviteInvalid),
			} {
				delete(body, "requestId")
				require.Len(t, body, 2)
				answers[body["message"].(string)] = true
			}
		}
		require.Len(t, answers, 1)
		require.Equal(t, before, o.head())
		statuses := map[any]any{}
		for _, i := range o.get(root.token, invitesPath).want(http.StatusOK).items() {
			statuses[i["id"]] = i["status"]
		}
		require.Equal(t, map[any]any{expiredID: "expired", usedID: "used", revokedID: "revoked"}, statuses)
		o.delete(root.token, invitesPath+"/"+expiredID).want(http.StatusNoContent)
	})
}

func TestInviteFaults(t *testing.T) {
	o, root := anOffice(t)
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
		refusal := o.post(root.token, invitesPath, row.body).want(http.StatusBadRequest)
		require.Contains(t, refusal.object("data").object("fields")[row.field], "must", name)
	}
	require.EqualValues(t, 0, o.get(root.token, invitesPath).want(http.StatusOK)["total"])
}

// The open invites of an admin are revoked when the admin loses the role.
func TestInvitesOfAFormerAdmin(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		for name, lose := range map[string]func(p person){
			"demoted": func(p person) { o.patch(root.token, usersPath+"/"+p.id, object{"role": "member"}).want(http.StatusOK) },
			"disabled": func(p person) {
				o.patch(root.token, usersPath+"/"+p.id, object{"status": "disabled"}).want(http.StatusOK)
			},
			"deleted": func(p person) { o.delete(root.token, usersPath+"/"+p.id).want(http.StatusNoContent) },
		} {
			p := o.join(root, "admin", name)
			token := o.post(p.token, invitesPath, object{"role": "admin", "note": name}).want(http.StatusCreated)["token"].(string)
			before := o.head()
			lose(p)
			o.register(token, "way-back").refused(http.StatusNotFound, api.InviteInvalid)
			log := o.log(before)
			require.Len(t, log, 2, name)
			require.Contains(t, log[0], "user.")
			require.Contains(t, log[1], "invite.revoke "+name)
		}
		// The invites of others, and of a user who remains an admin, are unchanged.
		token := o.post(root.token, invitesPath, object{"role": "admin"}).want(http.StatusCreated)["token"]
		o.patch(root.token, usersPath+"/"+root.id, object{"displayName": "Root"}).want(http.StatusOK)
		o.register(token, "second").want(http.StatusCreated)
	})
}

func TestRegisterFaults(t *testing.T) {
	o, root := anOffice(t)
	token := o.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)["token"].(string)
	before := o.head()
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
		refusal := o.post("", "/auth/register", body).want(http.StatusBadRequest)
		require.Contains(t, refusal.object("data").object("fields")[row.field], "must", name)
	}
	o.register(token, "Root").refused(http.StatusConflict, api.NameTaken)
	require.Equal(t, before, o.head())
	o.register(token, "ada").want(http.StatusCreated) // nothing of that has used it up
}

// One invite creates one user, even with concurrent registrations on several replicas. The others
// change nothing.
func TestRaceForAnInvite(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		replicas := []*replica{o.replica, o.open()}
		token := o.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)["token"]
		before := o.head()
		var mu sync.Mutex
		var wait sync.WaitGroup
		statuses := map[int]int{}
		for i := range 8 {
			wait.Go(func() {
				a := replicas[i%2].register(token, "user"+string(rune('a'+i)))
				mu.Lock()
				defer mu.Unlock()
				if statuses[a.status]++; a.status != http.StatusCreated {
					a.refused(http.StatusNotFound, api.InviteInvalid)
				}
			})
		}
		wait.Wait()
		require.Equal(t, map[int]int{http.StatusCreated: 1, http.StatusNotFound: 7}, statuses)
		require.EqualValues(t, 2, o.get(root.token, usersPath).want(http.StatusOK)["total"])
		require.Len(t, o.log(before), 1)
	})
}

// Two registrations with one name: one succeeds, and the invite of the other remains usable.
func TestRaceForAName(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		var tokens [2]any
		for i := range tokens {
			tokens[i] = o.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)["token"]
		}
		var answers [2]answer
		var wait sync.WaitGroup
		for i, name := range []string{"Ada", "aDA"} {
			wait.Go(func() { answers[i] = o.register(tokens[i], name) })
		}
		wait.Wait()
		lost := 0
		if answers[0].status == http.StatusCreated {
			lost = 1
		}
		answers[1-lost].want(http.StatusCreated)
		answers[lost].refused(http.StatusConflict, api.NameTaken)
		o.register(tokens[lost], "grace").want(http.StatusCreated)
	})
}
