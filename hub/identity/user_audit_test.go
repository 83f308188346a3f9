package identity_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

// What cannot be recorded does not happen.
func TestNoChangeWithoutItsEntry(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "admin", "ada")
		id, token := o.issue(ada)
		invite := o.post(root.token, invitesPath, object{"role": "member"}).want(http.StatusCreated)
		path := usersPath + "/" + ada.id
		reads := []string{usersPath, invitesPath, path + "/tokens", path + "/sessions", usersPath + "/" + root.id + "/tokens"}
		view := func() (texts []string) {
			for _, read := range reads {
				texts = append(texts, o.get(root.token, read).text)
			}
			return texts
		}
		before := view()
		o.exec(`ALTER TABLE audit_entries RENAME TO audit_lost`)
		for _, a := range []answer{
			o.post(root.token, usersPath, object{"username": "bob", "password": password, "role": "member"}),
			o.patch(root.token, path, object{"role": "member", "status": "disabled", "displayName": "A"}),
			o.delete(root.token, path),
			o.post(root.token, path+"/reset-password", nil),
			o.delete(root.token, path+"/sessions"),
			o.delete(root.token, path+"/tokens/"+id),
			o.post(root.token, invitesPath, object{"role": "admin"}),
			o.delete(root.token, invitesPath+"/"+invite.text("id")),
			o.register(invite["token"], "bob"),
			o.post(root.token, issuePath, object{"name": "n"}),
			o.delete(ada.token, tokensPath+"/"+id),
		} {
			a.refused(http.StatusInternalServerError, api.InternalError)
		}
		o.exec(`ALTER TABLE audit_lost RENAME TO audit_entries`)
		require.Equal(t, before, view())
		require.Equal(t, "admin", o.get(token, "/auth/userinfo").want(http.StatusOK)["role"])
		o.login("ada", password).want(http.StatusOK)
		o.register(invite["token"], "bob").want(http.StatusCreated)
	})
}
