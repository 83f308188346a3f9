package session_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
)

// What cannot be recorded does not happen.
func TestNoChangeWithoutItsEntry(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "admin", "ada")
		id, token := c.issue(ada)
		invite := c.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)
		path := usersPath + "/" + ada.id
		reads := []string{usersPath, invitesPath, path + "/tokens", path + "/sessions", usersPath + "/" + root.id + "/tokens"}
		view := func() (texts []string) {
			for _, read := range reads {
				texts = append(texts, c.get(root.token, read).text)
			}
			return texts
		}
		before := view()
		c.exec(`ALTER TABLE audit_entries RENAME TO audit_lost`)
		for _, res := range []response{
			c.post(root.token, usersPath, object{"username": "bob", "password": password, "role": "member"}),
			c.patch(root.token, path, object{"role": "member", "status": "disabled", "displayName": "A"}),
			c.delete(root.token, path),
			c.post(root.token, path+"/reset-password", nil),
			c.delete(root.token, path+"/sessions"),
			c.delete(root.token, path+"/tokens/"+id),
			c.post(root.token, invitesPath, object{"role": "admin"}),
			c.delete(root.token, invitesPath+"/"+invite.text("id")),
			c.register(invite["token"], "bob"),
			c.post(root.token, issuePath, object{"name": "n"}),
			c.delete(ada.token, tokensPath+"/"+id),
		} {
			res.wantError(http.StatusInternalServerError, code.InternalError)
		}
		c.exec(`ALTER TABLE audit_lost RENAME TO audit_entries`)
		require.Equal(t, before, view())
		require.Equal(t, "admin", c.get(token, "/auth/userinfo").want(http.StatusOK)["role"])
		c.login("ada", password).want(http.StatusOK)
		c.register(invite["token"], "bob").want(http.StatusCreated)
	})
}
