package session_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestChangeOfAUser(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "member", "ada")
		path := usersPath + "/" + ada.id
		change := func(body any) (object, []string) {
			before := c.head()
			return c.patch(root.token, path, body).want(http.StatusOK), c.log(before)
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

		before := c.head()
		for field, values := range map[string][]any{
			"role": {"", "owner", 1, object{}}, "status": {"", "deleted", true}, "displayName": {"", "\t", "a\u0007b", 1.5},
		} {
			for _, value := range values {
				body := object{"role": "member", "status": "disabled"}
				body[field] = value
				fields := c.patch(root.token, path, body).want(http.StatusBadRequest).object("data").object("fields")
				require.Len(t, fields, 1)
				require.Contains(t, fields[field], "must")
			}
		}
		require.Equal(t, before, c.head())
		c.patch(root.token, path, object{"displayName": "\t爱达 🚀 "}).want(http.StatusOK)
		require.Equal(t, "爱达 🚀", c.get(root.token, path).want(http.StatusOK)["displayName"])
	})
}

func TestTheLastActiveAdminCannotBeRemoved(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		other := c.join(root, "admin", "other")
		c.patch(root.token, usersPath+"/"+other.id, object{"status": "disabled"}).want(http.StatusOK)
		before, path := c.head(), usersPath+"/"+root.id
		for _, body := range []object{{"role": "maintainer"}, {"role": "member"}, {"status": "disabled"}, {"role": "member", "displayName": "x"}} {
			c.patch(root.token, path, body).wantError(http.StatusConflict, code.LastAdmin)
		}
		c.delete(root.token, path).wantError(http.StatusConflict, code.LastAdmin)
		require.Equal(t, before, c.head())
		require.Equal(t, "root", c.patch(root.token, path, object{"role": "admin", "status": "active"}).want(http.StatusOK)["displayName"])

		// With another one, admins may do it to themselves.
		c.patch(root.token, usersPath+"/"+other.id, object{"status": "active"}).want(http.StatusOK)
		c.patch(root.token, path, object{"role": "maintainer"}).want(http.StatusOK)
		c.get(root.token, path).wantError(http.StatusForbidden, wire.Forbidden)
		body := c.login("other", password).want(http.StatusOK)
		other = c.signedIn(body)
		c.delete(other.token, path).want(http.StatusNoContent)
		c.delete(other.token, usersPath+"/"+other.id).wantError(http.StatusConflict, code.LastAdmin)
	})
}

// Of the last two admins one remains, in every order.
func TestRaceForTheLastAdmin(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		second := c.open()
		other := c.join(root, "admin", "other")
		demote, disable := object{"role": "member"}, object{"status": "disabled"}
		for name, race := range map[string][2]func() response{
			"each themselves": {
				func() response { return c.patch(root.token, usersPath+"/"+root.id, demote) },
				func() response { return c.patch(other.token, usersPath+"/"+other.id, demote) },
			},
			"each themselves, on two replicas": {
				func() response { return c.patch(root.token, usersPath+"/"+root.id, demote) },
				func() response { return second.patch(other.token, usersPath+"/"+other.id, demote) },
			},
			"each the other, on two replicas": {
				func() response { return c.patch(root.token, usersPath+"/"+other.id, demote) },
				func() response { return second.patch(other.token, usersPath+"/"+root.id, demote) },
			},
			"disabling and demoting": {
				func() response { return c.patch(root.token, usersPath+"/"+other.id, disable) },
				func() response { return second.patch(other.token, usersPath+"/"+root.id, demote) },
			},
			"deleting and demoting": {
				func() response { return c.patch(root.token, usersPath+"/"+other.id, demote) },
				func() response { return second.delete(other.token, usersPath+"/"+root.id) },
			},
		} {
			for range 3 {
				c.get(root.token, usersPath).want(http.StatusOK) // both are known where they are going to call
				second.get(other.token, usersPath).want(http.StatusOK)
				responses := atOnce(2, func(i int) response { return race[i]() })
				won := slices.IndexFunc(responses, func(res response) bool { return res.status < 300 })
				require.NotEqual(t, -1, won, name)
				responses[1-won].wantError(http.StatusConflict, code.LastAdmin)
				require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM members WHERE role = 'admin' AND status = 'active'`), name)

				// Back to two.
				c.exec(`UPDATE members SET role = 'admin', status = 'active'`)
				c.exec(`UPDATE sessions SET revoked_at = NULL`)
				if c.count(`SELECT COUNT(*) FROM members`) < 2 {
					root = c.join(other, "admin", "root")
				}
				c.wait(2 * time.Second)
			}
		}
	})
}

// Of many admins who all leave at once, one has to stay.
func TestRaceOfAllAdmins(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		replicas, admins := []*replica{c.replica, c.open()}, []user{root}
		for i := range 5 {
			admins = append(admins, c.join(root, "admin", fmt.Sprint("admin", i)))
		}
		for range 5 {
			responses := atOnce(len(admins), func(i int) response {
				return replicas[i%2].patch(admins[i].token, usersPath+"/"+admins[i].id, object{"role": "member"})
			})
			require.Equal(t, map[string]int{"OK": len(admins) - 1, "last_admin": 1}, statuses(responses))
			c.exec(`UPDATE members SET role = 'admin'`)
			c.wait(2 * time.Second)
		}
	})
}

func TestDeletionIsFinal(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "maintainer", "ada")
		_, token := c.issue(ada)
		c.patch(root.token, usersPath+"/"+ada.id, object{"displayName": "Ada"}).want(http.StatusOK)
		before := c.head()
		c.delete(root.token, usersPath+"/"+ada.id).want(http.StatusNoContent)
		require.Equal(t, []string{`user.delete ada {"role":"maintainer"}`}, c.log(before))
		c.delete(root.token, usersPath+"/"+ada.id).wantError(http.StatusNotFound, wire.NotFound)
		for _, table := range []string{"sessions", "cli_tokens", "members"} {
			column := map[string]string{"members": "id"}[table]
			if column == "" {
				column = "user_id"
			}
			var n int
			require.NoError(t, c.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+table+` WHERE `+column+` = $1`, ada.id).Scan(&n))
			require.Zero(t, n, table)
		}
		require.Equal(t, http.StatusUnauthorized, c.get(ada.token, "/auth/userinfo").status)
		require.Equal(t, http.StatusUnauthorized, c.get(token, "/auth/userinfo").status)
		c.login("ada", password).wantError(http.StatusUnauthorized, code.InvalidCredentials)

		// The name is free again, for another user. Entries of the first one keep the name.
		again := c.join(root, "member", "ADA")
		require.NotEqual(t, ada.id, again.id)
		require.Contains(t, c.log(0), `auth.register ada `+`{"inviteId":"`+c.inviteOf(root, "ada")+`","role":"maintainer"}`)
	})
}

// inviteOf is the id of the invite with which a user registered.
func (c *cluster) inviteOf(admin user, name string) string {
	c.t.Helper()
	for _, i := range c.get(admin.token, invitesPath).want(http.StatusOK).items() {
		if i["usedBy"] == name {
			return i["id"].(string)
		}
	}
	require.Fail(c.t, "no invite was used by "+name)
	return ""
}
