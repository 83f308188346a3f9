package session_test

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

func TestCLITokens(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada := c.join(root, "maintainer", "ada")
		before := c.head()
		made := c.post(ada.token, issuePath, object{"name": " build server ", "expiresInDays": 365}).want(http.StatusCreated)
		id, token := made["id"].(string), made["token"].(string)
		require.Regexp(t, `^cli_[0-9a-f]{64}$`, token)
		want := object{
			"id": id, "name": "build server", "token": token, "prefix": token[:12],
			"createdAt": "2026-03-01T12:00:00.123456Z", "expiresAt": "2027-03-01T12:00:00.123456Z",
		}
		require.Equal(t, want, made)
		require.Equal(t, []string{`token.issue build server {"prefix":"` + token[:12] + `","expiresAt":"2027-03-01T12:00:00.123456Z"}`}, c.log(before))
		var hash []byte
		require.NoError(t, c.db.Read().QueryRowContext(t.Context(), `SELECT token_hash FROM cli_tokens WHERE id = $1`, id).Scan(&hash))
		sum := sha256.Sum256([]byte(token))
		require.Equal(t, sum[:], hash)

		list := c.get(ada.token, tokensPath)
		require.NotContains(t, list.text, token)
		delete(want, "token")
		want["lastUsedAt"], want["lastUsedIp"] = nil, nil
		require.Equal(t, want, list.want(http.StatusOK).items()[0])
		require.EqualValues(t, 1, list.body["total"])

		// The token has all permissions of its user, including the creation of tokens.
		info := c.get(token, "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, []any{ada.id, "ada", "maintainer", "cli"}, []any{info["id"], info["username"], info["role"], info["token_type"]})
		c.wait(time.Minute)
		before = c.head()
		child := c.post(token, issuePath, object{"name": "child", "expiresInDays": nil}).want(http.StatusCreated)
		require.Equal(t, []string{`token.issue child {"prefix":"` + child.text("prefix") + `","expiresAt":"2027-03-01T12:00:00.123456Z"}`}, c.log(before))
		require.Equal(t, want["expiresAt"], child["expiresAt"], "it does not outlive the token that issued it")
		list = c.get(token, tokensPath)
		require.Equal(t, []any{"child", "build server"}, column(list.want(http.StatusOK), "name"), "the newest first")
		require.Equal(t, []any{"child"}, column(c.get(token, tokensPath+"?page_size=1").want(http.StatusOK), "name"))
		require.Eventually(t, func() bool { // it is written in the background
			used := c.get(token, tokensPath).want(http.StatusOK).items()[1]
			return used["lastUsedIp"] == "127.0.0.1" && used["lastUsedAt"] != nil
		}, time.Minute, 20*time.Millisecond)
		c.get(token, usersPath).wantError(http.StatusForbidden, wire.Forbidden)

		before = c.head()
		c.delete(token, tokensPath+"/"+id).want(http.StatusNoContent)
		require.Len(t, c.log(before), 1)
		require.Equal(t, `token.revoke build server {"owner":"ada","prefix":"`+token[:12]+`","expiresAt":"2027-03-01T12:00:00.123456Z"}`, c.log(before)[0])
		require.Equal(t, http.StatusUnauthorized, c.get(token, "/auth/userinfo").status, "it has revoked itself")
		childToken := child["token"].(string)
		c.delete(childToken, tokensPath+"/"+id).wantError(http.StatusNotFound, wire.NotFound)
		require.Equal(t, []any{"child"}, column(c.get(childToken, tokensPath).want(http.StatusOK), "name"))
	})
}

func TestCLITokensOfOthers(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		ada, bob := c.join(root, "maintainer", "ada"), c.join(root, "member", "bob")
		id, token := c.issue(ada)
		before := c.head()
		c.delete(root.token, tokensPath+"/"+id).wantError(http.StatusNotFound, wire.NotFound)
		require.Empty(t, c.get(root.token, tokensPath).want(http.StatusOK)["items"])
		c.post(bob.token, issuePath, object{"name": "x"}).wantError(http.StatusForbidden, wire.Forbidden)
		c.get(bob.token, tokensPath).wantError(http.StatusForbidden, wire.Forbidden)
		c.delete(bob.token, tokensPath+"/"+id).wantError(http.StatusForbidden, wire.Forbidden)
		require.Equal(t, before, c.head())

		// Administrators have a route of their own.
		theirs := usersPath + "/" + ada.id + "/tokens"
		list := c.get(root.token, theirs).want(http.StatusOK)
		require.EqualValues(t, 1, list["total"])
		require.Equal(t, c.get(ada.token, tokensPath).body, list)
		c.get(ada.token, theirs).wantError(http.StatusForbidden, wire.Forbidden)
		c.delete(root.token, usersPath+"/"+bob.id+"/tokens/"+id).wantError(http.StatusNotFound, wire.NotFound)
		c.delete(root.token, theirs+"/1").wantError(http.StatusNotFound, wire.NotFound)
		c.get(token, tokensPath).want(http.StatusOK)
		before = c.head()
		c.delete(root.token, theirs+"/"+id).want(http.StatusNoContent)
		require.Equal(t, []string{`token.revoke ci {"owner":"ada","prefix":"` + token[:12] + `","expiresAt":null}`}, c.log(before))
		c.delete(root.token, theirs+"/"+id).wantError(http.StatusNotFound, wire.NotFound)
		require.Equal(t, http.StatusUnauthorized, c.get(token, tokensPath).status)
	})
}

func TestCLITokenFaults(t *testing.T) {
	c, root := clusterWithRoot(t)
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
		refusal := c.post(root.token, issuePath, row.body).want(http.StatusBadRequest)
		if row.field != "" {
			require.Contains(t, refusal.object("data").object("fields")[row.field], "must", name)
		}
	}
	require.Empty(t, c.get(root.token, tokensPath).want(http.StatusOK)["items"])
}

func TestCLITokensExpire(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		made := c.post(root.token, issuePath, object{"name": "n", "expiresInDays": 1}).want(http.StatusCreated)
		token := made["token"].(string)
		_, forever := c.issue(root)
		c.wait(24*time.Hour - time.Microsecond)
		c.get(token, tokensPath).want(http.StatusOK)
		c.wait(time.Microsecond)
		c.get(token, tokensPath).wantError(http.StatusUnauthorized, wire.TokenExpired)
		c.wait(10 * 365 * 24 * time.Hour)
		c.get(token, tokensPath).wantError(http.StatusUnauthorized, wire.TokenExpired)
		list := c.get(forever, tokensPath).want(http.StatusOK)
		require.EqualValues(t, 2, list["total"], "its owner sees that it has expired")
		c.delete(forever, tokensPath+"/"+made["id"].(string)).want(http.StatusNoContent)
	})
}
