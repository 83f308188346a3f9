package identity_test

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

func TestCLITokens(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada := o.join(root, "maintainer", "ada")
		before := o.head()
		made := o.post(ada.token, issuePath, object{"name": " build server ", "expiresInDays": 365}).want(http.StatusCreated)
		id, token := made["id"].(string), made["token"].(string)
		require.Regexp(t, `^cli_[0-9a-f]{64}$`, token)
		want := object{
			"id": id, "name": "build server", "token": token, "prefix": token[:12],
			"createdAt": "2026-03-01T12:00:00.123456Z", "expiresAt": "2027-03-01T12:00:00.123456Z",
		}
		require.Equal(t, want, made)
		require.Equal(t, []string{`token.issue build server {"prefix":"` + token[:12] + `","expiresAt":"2027-03-01T12:00:00.123456Z"}`}, o.log(before))
		var hash []byte
		require.NoError(t, o.db.Read().QueryRowContext(t.Context(), `SELECT token_hash FROM cli_tokens WHERE id = $1`, id).Scan(&hash))
		sum := sha256.Sum256([]byte(token))
		require.Equal(t, sum[:], hash)

		list := o.get(ada.token, tokensPath)
		require.NotContains(t, list.text, token)
		delete(want, "token")
		want["lastUsedAt"], want["lastUsedIp"] = nil, nil
		require.Equal(t, want, list.want(http.StatusOK).items()[0])
		require.EqualValues(t, 1, list.body["total"])

		// The token has all permissions of its user, including the creation of tokens.
		info := o.get(token, "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, []any{ada.id, "ada", "maintainer", "cli"}, []any{info["id"], info["username"], info["role"], info["token_type"]})
		o.wait(time.Minute)
		before = o.head()
		child := o.post(token, issuePath, object{"name": "child", "expiresInDays": nil}).want(http.StatusCreated)
		require.Equal(t, []string{`token.issue child {"prefix":"` + child.text("prefix") + `","expiresAt":null}`}, o.log(before))
		require.Nil(t, child["expiresAt"])
		require.Contains(t, child, "expiresAt")
		list = o.get(token, tokensPath)
		require.Equal(t, []any{"child", "build server"}, column(list.want(http.StatusOK), "name"), "the newest first")
		require.Equal(t, []any{"child"}, column(o.get(token, tokensPath+"?page_size=1").want(http.StatusOK), "name"))
		require.Eventually(t, func() bool { // it is written in the background
			used := o.get(token, tokensPath).want(http.StatusOK).items()[1]
			return used["lastUsedIp"] == "127.0.0.1" && used["lastUsedAt"] != nil
		}, time.Minute, time.Millisecond)
		o.get(token, usersPath).refused(http.StatusForbidden, api.Forbidden)

		before = o.head()
		o.delete(token, tokensPath+"/"+id).want(http.StatusNoContent)
		require.Len(t, o.log(before), 1)
		require.Equal(t, `token.revoke build server {"owner":"ada","prefix":"`+token[:12]+`","expiresAt":"2027-03-01T12:00:00.123456Z"}`, o.log(before)[0])
		require.Equal(t, http.StatusUnauthorized, o.get(token, "/auth/userinfo").status, "it has revoked itself")
		childToken := child["token"].(string)
		o.delete(childToken, tokensPath+"/"+id).refused(http.StatusNotFound, api.NotFound)
		require.Equal(t, []any{"child"}, column(o.get(childToken, tokensPath).want(http.StatusOK), "name"))
	})
}

func TestCLITokensOfOthers(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		ada, bob := o.join(root, "maintainer", "ada"), o.join(root, "member", "bob")
		id, token := o.issue(ada)
		before := o.head()
		o.delete(root.token, tokensPath+"/"+id).refused(http.StatusNotFound, api.NotFound)
		require.Empty(t, o.get(root.token, tokensPath).want(http.StatusOK)["items"])
		o.post(bob.token, issuePath, object{"name": "x"}).refused(http.StatusForbidden, api.Forbidden)
		o.get(bob.token, tokensPath).refused(http.StatusForbidden, api.Forbidden)
		o.delete(bob.token, tokensPath+"/"+id).refused(http.StatusForbidden, api.Forbidden)
		require.Equal(t, before, o.head())

		// Administrators have a route of their own.
		theirs := usersPath + "/" + ada.id + "/tokens"
		list := o.get(root.token, theirs).want(http.StatusOK)
		require.EqualValues(t, 1, list["total"])
		require.Equal(t, o.get(ada.token, tokensPath).body, list)
		o.get(ada.token, theirs).refused(http.StatusForbidden, api.Forbidden)
		o.delete(root.token, usersPath+"/"+bob.id+"/tokens/"+id).refused(http.StatusNotFound, api.NotFound)
		o.delete(root.token, theirs+"/1").refused(http.StatusNotFound, api.NotFound)
		o.get(token, tokensPath).want(http.StatusOK)
		before = o.head()
		o.delete(root.token, theirs+"/"+id).want(http.StatusNoContent)
		require.Equal(t, []string{`token.revoke ci {"owner":"ada","prefix":"` + token[:12] + `","expiresAt":null}`}, o.log(before))
		o.delete(root.token, theirs+"/"+id).refused(http.StatusNotFound, api.NotFound)
		require.Equal(t, http.StatusUnauthorized, o.get(token, tokensPath).status)
	})
}

func TestCLITokenFaults(t *testing.T) {
	o, root := anOffice(t)
	for name, row := range map[string]struct {
		body  object
		field string
	}{
		"no name":             {object{}, "name"},
		"a blank name":        {object{"name": " \t"}, "name"},
		"a long name":         {object{"name": strings.Repeat("n", 101)}, "name"},
		"control characters":  {object{"name": "a\x00b"}, ""},
		"a line end":          {object{"name": "a\nb"}, "name"},
		"a name of no string": {object{"name": true}, "name"},
		"no days":             {object{"name": "n", "expiresInDays": 0}, "expiresInDays"},
		"days that are over":  {object{"name": "n", "expiresInDays": -1}, "expiresInDays"},
		"over a year":         {object{"name": "n", "expiresInDays": 366}, "expiresInDays"},
		"half a day":          {object{"name": "n", "expiresInDays": 0.5}, "expiresInDays"},
		"days as a string":    {object{"name": "n", "expiresInDays": "7"}, "expiresInDays"},
		"a thousand digits":   {object{"name": "n", "expiresInDays": 1e300}, "expiresInDays"},
	} {
		refusal := o.post(root.token, issuePath, row.body).want(http.StatusBadRequest)
		if row.field != "" {
			require.Contains(t, refusal.object("data").object("fields")[row.field], "must", name)
		}
	}
	require.Empty(t, o.get(root.token, tokensPath).want(http.StatusOK)["items"])
}

func TestCLITokensExpire(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		made := o.post(root.token, issuePath, object{"name": "n", "expiresInDays": 1}).want(http.StatusCreated)
		token := made["token"].(string)
		_, forever := o.issue(root)
		o.wait(24*time.Hour - time.Microsecond)
		o.get(token, tokensPath).want(http.StatusOK)
		o.wait(time.Microsecond)
		o.get(token, tokensPath).refused(http.StatusUnauthorized, api.TokenExpired)
		o.wait(10 * 365 * 24 * time.Hour)
		o.get(token, tokensPath).refused(http.StatusUnauthorized, api.TokenExpired)
		list := o.get(forever, tokensPath).want(http.StatusOK)
		require.EqualValues(t, 2, list["total"], "its owner sees that it has expired")
		o.delete(forever, tokensPath+"/"+made["id"].(string)).want(http.StatusNoContent)
	})
}
