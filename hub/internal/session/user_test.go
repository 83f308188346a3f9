package session_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
)

func TestUsers(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		before := c.head()
		c.wait(time.Second)
		made := c.post(root.token, usersPath, object{
			"username": "Ada.L", "password": password, "role": "maintainer", "displayName": " Ada Lovelace\n", "status": "disabled", "nothing": 1,
		}).want(http.StatusCreated)
		id := made["id"].(string)
		want := object{
			"id": id, "username": "Ada.L", "displayName": "Ada Lovelace", "role": "maintainer", "status": "active",
			"authSource": "builtin", "lastLoginAt": nil, "createdAt": "2026-03-01T12:00:01.123456Z",
		}
		require.Equal(t, want, made, "unknown fields are ignored, also those of other requests")
		require.Equal(t, []string{`user.create Ada.L {"role":"maintainer","displayName":"Ada Lovelace"}`}, c.log(before))
		require.Equal(t, want, c.get(root.token, usersPath+"/"+id).want(http.StatusOK))
		require.Equal(t, want, c.get(root.token, usersPath+"/"+strings.ToUpper(id)).want(http.StatusOK))

		c.wait(time.Second)
		c.login("ada.l", password).want(http.StatusOK)
		require.Equal(t, "2026-03-01T12:00:02.123456Z", c.get(root.token, usersPath+"/"+id).want(http.StatusOK)["lastLoginAt"])

		list := c.get(root.token, usersPath).want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		require.Equal(t, []any{"root", "Ada.L"}, column(list, "username"))
		list = c.get(root.token, usersPath+"?page=2&page_size=1").want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		require.Equal(t, []any{"Ada.L"}, column(list, "username"))
		list = c.get(root.token, usersPath+"?page=9000000000000000000&page_size=1000").want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		require.Empty(t, list["items"])
		require.NotNil(t, list["items"])
		c.get(root.token, usersPath+"?page=0").wantError(http.StatusBadRequest, wire.InvalidRequest)
	})
}

func column(list object, name string) (values []any) {
	for _, item := range list.items() {
		values = append(values, item[name])
	}
	return values
}

func TestUsernamesAreUniqueInAnyCase(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		create := func(name string) response {
			return c.post(root.token, usersPath, object{"username": name, "password": password, "role": "member"})
		}
		require.Equal(t, "x.Y", create("x.Y").want(http.StatusCreated)["displayName"], "a name to show, where none was given")
		before := c.head()
		for _, name := range []string{"x.Y", "X.y", "ROOT"} {
			create(name).wantError(http.StatusConflict, wire.NameTaken)
		}
		require.Equal(t, before, c.head())
	})
}

func TestUserFaults(t *testing.T) {
	long := strings.Repeat("x", 129)
	c, root := clusterWithRoot(t)
	users, before := c.get(root.token, usersPath).text, c.head()
	for name, row := range map[string]struct {
		change object // of a good body
		fields []string
	}{
		"no username":                 {object{"username": nil}, []string{"username"}},
		"a username with a space":     {object{"username": "a b"}, []string{"username"}},
		"a username with a NUL":       {object{"username": "a\x00"}, nil},
		"a username with a line end":  {object{"username": "a\n"}, []string{"username"}},
		"a username that begins .":    {object{"username": ".a"}, []string{"username"}},
		"a username of 65":            {object{"username": long[:65]}, []string{"username"}},
		"letters beside ASCII":        {object{"username": "ädа"}, []string{"username"}},
		"a username that is a number": {object{"username": 7}, []string{"username"}},
		"no password":                 {object{"password": ""}, []string{"password"}},
		"a password of 7":             {object{"password": "äöüäöüß"}, []string{"password"}},
		"a password of 129":           {object{"password": long}, []string{"password"}},
		"no role":                     {object{"role": nil}, []string{"role"}},
		"an unknown role":             {object{"role": "root"}, []string{"role"}},
		"a role in another case":      {object{"role": "Admin"}, []string{"role"}},
		"a role that is a list":       {object{"role": []string{"admin"}}, []string{"role"}},
		"a display name of 129":       {object{"displayName": long}, []string{"displayName"}},
		"a blank display name":        {object{"displayName": " "}, []string{"displayName"}},
		"control characters":          {object{"displayName": "a\x1b[2Jb"}, []string{"displayName"}},
		"a mark of direction":         {object{"displayName": "a\u061cb"}, []string{"displayName"}},
		"a change of direction":       {object{"displayName": "a\u202eb"}, []string{"displayName"}},
		"all that can be":             {object{"username": "", "password": "", "role": "", "displayName": "\n"}, []string{"username", "password", "role", "displayName"}},
	} {
		body := object{"username": "good", "password": password, "role": "member"}
		maps.Copy(body, row.change)
		refusal := c.post(root.token, usersPath, body).want(http.StatusBadRequest)
		require.Contains(t, []any{"validation_failed", "invalid_request"}, refusal["code"], name)
		if row.fields == nil {
			continue
		}
		fields := refusal.object("data").object("fields")
		require.Len(t, fields, len(row.fields), name)
		for _, field := range row.fields {
			require.Contains(t, fields[field], "must", name)
		}
	}
	for name, text := range map[string]string{"nothing": "", "half": `{"username":`, "null": "null", "a list": "[]", "not UTF-8": "{\"username\":\"\xff\"}"} {
		require.Equal(t, http.StatusBadRequest, c.post(root.token, usersPath, text).status, name)
	}
	large := `{"username":"` + strings.Repeat("x", 1<<20) + `"}`
	c.post(root.token, usersPath, large).wantError(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
	require.Equal(t, users, c.get(root.token, usersPath).text)
	require.Equal(t, before, c.head())
}

// Everything below a user is 404 for one who is not there, and for one of another tenant.
func TestUnknownUsersAreNotFound(t *testing.T) {
	oneWithRoot(t, func(t *testing.T, c *cluster, root user) {
		stranger, token := ids.New(), ids.New()
		for _, statement := range []string{
			`INSERT INTO tenants (id, created_at) VALUES ('other', 1)`,
			`INSERT INTO members (id, tenant_id, username, username_fold, display_name, role, status, auth_source, created_at, updated_at)
				VALUES ('` + stranger + `', 'other', 'eve', 'eve', 'Eve', 'admin', 'active', 'builtin', 1, 1)`,
			`INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
				VALUES ('` + ids.New() + `', 'other', '` + stranger + `', 1, 1, 9000000000000000, 9000000000000000, '', '', '')`,
			`INSERT INTO cli_tokens (id, tenant_id, user_id, name, token_hash, prefix, created_at)
				VALUES ('` + token + `', 'other', '` + stranger + `', 'n', 'h', 'p', 1)`,
			`INSERT INTO invites (id, tenant_id, token_hash, role, created_by, created_by_name, created_at, expires_at)
				VALUES ('` + stranger + `', 'other', 'h', 'member', 'x', 'x', 1, 9000000000000000)`,
		} {
			_, err := c.db.Write().ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		before := c.head()
		for _, id := range []string{stranger, ids.New(), "1", "x'--", strings.Repeat("0", 36), "%00", strings.ReplaceAll(stranger, "-", "")} {
			for _, row := range []struct {
				method, path string
				body         any
			}{
				{"GET", "", nil}, {"PATCH", "", object{"role": "member"}}, {"PATCH", "", object{}}, {"DELETE", "", nil},
				{"POST", "/reset-password", nil}, {"GET", "/sessions", nil}, {"DELETE", "/sessions", nil}, {"GET", "/tokens", nil},
				{"DELETE", "/tokens/" + token, nil},
			} {
				path := fmt.Sprintf("%s/%s%s", usersPath, id, row.path)
				c.call(root.token, row.method, path, row.body).wantError(http.StatusNotFound, wire.NotFound)
			}
			c.delete(root.token, invitesPath+"/"+id).wantError(http.StatusNotFound, wire.NotFound)
			c.delete(root.token, tokensPath+"/"+id).wantError(http.StatusNotFound, wire.NotFound)
		}
		c.delete(root.token, usersPath+"/"+root.id+"/tokens/"+token).wantError(http.StatusNotFound, wire.NotFound)
		require.EqualValues(t, 1, c.get(root.token, usersPath).want(http.StatusOK)["total"])
		require.EqualValues(t, 0, c.get(root.token, invitesPath).want(http.StatusOK)["total"])
		require.Equal(t, before, c.head())
	})
}
