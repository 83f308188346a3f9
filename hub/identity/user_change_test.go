package identity_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

func TestChangeOfAUser(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "member", "ada")
		path := usersPath + "/" + ada.id
		change := func(body any) (object, []string) {
			before := o.head()
			return o.patch(root.token, path, body).want(http.StatusOK), o.log(before)
		}
		got, log := change(object{"role": "maintainer", "status": "disabled", "displayName": "Ada"})
		require.Equal(t, []any{"maintainer", "disabled", "Ada"}, []any{got["role"], got["status"], got["displayName"]})
		require.Equal(t, []string{
			`user.update_role ada {"role":{"from":"member","to":"maintainer"}}`,
			`user.update_status ada {"status":{"from":"active","to":"disabled"},"sessionsEnded":1}`,
			`user.update_profile ada {"displayName":{"from":"ada","to":"Ada"}}`,
		}, log)
		for name, body := range map[string]object{
			"nothing":            {},
			"as it is":           {"role": "maintainer", "status": "disabled", "displayName": "Ada"},
			"null":               {"role": nil, "status": nil, "displayName": nil},
			"what cannot change": {"username": "eve", "id": "1", "password": "another password", "authSource": "external", "tenantId": "other"},
		} {
			again, log := change(body)
			require.Equal(t, got, again, name)
			require.Empty(t, log, name)
		}
		_, log = change(object{"status": "active"})
		require.Equal(t, []string{`user.update_status ada {"status":{"from":"disabled","to":"active"},"sessionsEnded":0}`}, log)

		before := o.head()
		for field, values := range map[string][]any{
			"role": {"", "owner", 1, object{}}, "status": {"", "deleted", true}, "displayName": {"", "\t", "a\u0007b", 1.5},
		} {
			for _, value := range values {
				body := object{"role": "member", "status": "disabled"}
				body[field] = value
				told := o.patch(root.token, path, body).want(http.StatusBadRequest).object("data").object("fields")
				require.Len(t, told, 1)
				require.Contains(t, told[field], "must")
			}
		}
		require.Equal(t, before, o.head())
		o.patch(root.token, path, object{"displayName": "\t爱达 🚀 "}).want(http.StatusOK)
		require.Equal(t, "爱达 🚀", o.get(root.token, path).want(http.StatusOK)["displayName"])
	})
}

func TestTheLastActiveAdminStays(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		other := o.join(root, "admin", "other")
		o.patch(root.token, usersPath+"/"+other.id, object{"status": "disabled"}).want(http.StatusOK)
		before, path := o.head(), usersPath+"/"+root.id
		for _, body := range []object{{"role": "maintainer"}, {"role": "member"}, {"status": "disabled"}, {"role": "member", "displayName": "x"}} {
			o.patch(root.token, path, body).refused(http.StatusConflict, api.LastAdmin)
		}
		o.delete(root.token, path).refused(http.StatusConflict, api.LastAdmin)
		require.Equal(t, before, o.head())
		require.Equal(t, "root", o.patch(root.token, path, object{"role": "admin", "status": "active"}).want(http.StatusOK)["displayName"])

		// With another one, admins may do it to themselves.
		o.patch(root.token, usersPath+"/"+other.id, object{"status": "active"}).want(http.StatusOK)
		o.patch(root.token, path, object{"role": "maintainer"}).want(http.StatusOK)
		o.get(root.token, path).refused(http.StatusForbidden, api.Forbidden)
		body := o.login("other", password).want(http.StatusOK)
		other = o.signedIn(body)
		o.delete(other.token, path).want(http.StatusNoContent)
		o.delete(other.token, usersPath+"/"+other.id).refused(http.StatusConflict, api.LastAdmin)
	})
}

// Of the last two admins one remains, in every order.
func TestRaceForTheLastAdmin(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		second := o.open()
		other := o.join(root, "admin", "other")
		demote, disable := object{"role": "member"}, object{"status": "disabled"}
		for name, race := range map[string][2]func() answer{
			"each themselves": {
				func() answer { return o.patch(root.token, usersPath+"/"+root.id, demote) },
				func() answer { return o.patch(other.token, usersPath+"/"+other.id, demote) },
			},
			"each themselves, on two replicas": {
				func() answer { return o.patch(root.token, usersPath+"/"+root.id, demote) },
				func() answer { return second.patch(other.token, usersPath+"/"+other.id, demote) },
			},
			"each the other, on two replicas": {
				func() answer { return o.patch(root.token, usersPath+"/"+other.id, demote) },
				func() answer { return second.patch(other.token, usersPath+"/"+root.id, demote) },
			},
			"disabling and demoting": {
				func() answer { return o.patch(root.token, usersPath+"/"+other.id, disable) },
				func() answer { return second.patch(other.token, usersPath+"/"+root.id, demote) },
			},
			"deleting and demoting": {
				func() answer { return o.patch(root.token, usersPath+"/"+other.id, demote) },
				func() answer { return second.delete(other.token, usersPath+"/"+root.id) },
			},
		} {
			for range 3 {
				o.get(root.token, usersPath).want(http.StatusOK) // both are known where they are going to call
				second.get(other.token, usersPath).want(http.StatusOK)
				answers := atOnce(2, func(i int) answer { return race[i]() })
				won := slices.IndexFunc(answers, func(a answer) bool { return a.status < 300 })
				require.NotEqual(t, -1, won, name)
				answers[1-won].refused(http.StatusConflict, api.LastAdmin)
				require.Equal(t, 1, o.count(`SELECT COUNT(*) FROM members WHERE role = 'admin' AND status = 'active'`), name)

				// Back to two.
				o.exec(`UPDATE members SET role = 'admin', status = 'active'`)
				o.exec(`UPDATE sessions SET revoked_at = NULL`)
				if o.count(`SELECT COUNT(*) FROM members`) < 2 {
					root = o.join(other, "admin", "root")
				}
				o.wait(2 * time.Second)
			}
		}
	})
}

// Of many admins who all leave at once, one has to stay.
func TestRaceOfAllAdmins(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		replicas, admins := []*replica{o.replica, o.open()}, []person{root}
		for i := range 5 {
			admins = append(admins, o.join(root, "admin", fmt.Sprint("admin", i)))
		}
		for range 5 {
			answers := atOnce(len(admins), func(i int) answer {
				return replicas[i%2].patch(admins[i].token, usersPath+"/"+admins[i].id, object{"role": "member"})
			})
			require.Equal(t, map[string]int{"OK": len(admins) - 1, "last_admin": 1}, statuses(answers))
			o.exec(`UPDATE members SET role = 'admin'`)
			o.wait(2 * time.Second)
		}
	})
}

func TestDeletionIsFinal(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "maintainer", "ada")
		_, token := o.issue(ada)
		o.patch(root.token, usersPath+"/"+ada.id, object{"displayName": "Ada"}).want(http.StatusOK)
		before := o.head()
		o.delete(root.token, usersPath+"/"+ada.id).want(http.StatusNoContent)
		require.Equal(t, []string{`user.delete ada {"role":"maintainer"}`}, o.log(before))
		o.delete(root.token, usersPath+"/"+ada.id).refused(http.StatusNotFound, api.NotFound)
		for _, table := range []string{"sessions", "cli_tokens", "members"} {
			column := map[string]string{"members": "id"}[table]
			if column == "" {
				column = "user_id"
			}
			var n int
			require.NoError(t, o.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+table+` WHERE `+column+` = $1`, ada.id).Scan(&n))
			require.Zero(t, n, table)
		}
		require.Equal(t, http.StatusUnauthorized, o.get(ada.token, "/auth/userinfo").status)
		require.Equal(t, http.StatusUnauthorized, o.get(token, "/auth/userinfo").status)
		o.login("ada", password).refused(http.StatusUnauthorized, api.InvalidCredentials)

		// The name is free again, for another user. Entries of the first one keep the name.
		again := o.join(root, "member", "ADA")
		require.NotEqual(t, ada.id, again.id)
		require.Contains(t, o.log(0), `auth.register ada `+`{"inviteId":"`+o.inviteOf(root, "ada")+`","role":"maintainer"}`)
	})
}

// inviteOf is the id of the invite with which a user registered.
func (o *office) inviteOf(admin person, name string) string {
	o.t.Helper()
	for _, i := range o.get(admin.token, invitesPath).want(http.StatusOK).items() {
		if i["usedBy"] == name {
			return i["id"].(string)
		}
	}
	require.Fail(o.t, "no invite was used by "+name)
	return ""
}
