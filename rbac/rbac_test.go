package rbac_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/rbac"
)

type user struct {
	name string
	role rbac.Role
}

func (u user) Role() rbac.Role { return u.role }

type robot struct{}

func (*robot) Role() rbac.Role { return rbac.Member }

func TestParseRole(t *testing.T) {
	for _, role := range []rbac.Role{rbac.Admin, rbac.Maintainer, rbac.Member} {
		got, err := rbac.ParseRole(string(role))
		require.NoError(t, err)
		require.Equal(t, role, got)
	}
	for _, in := range []string{"", "Admin", "admin ", "owner", "admin\x00", "adminmaintainer"} {
		got, err := rbac.ParseRole(in)
		require.EqualError(t, err, fmt.Sprintf("parse role %q: want admin, maintainer or member", in))
		require.Empty(t, got)
	}
}

// TestGroups has the table of the contract.
func TestGroups(t *testing.T) {
	var none rbac.Group
	custom := rbac.NewGroup("billing", "accountant", rbac.Admin)
	for _, row := range []struct {
		group                     rbac.Group
		name                      string
		admin, maintainer, member bool
		accountant                bool
	}{
		{rbac.AdminRead, "adminRead", true, true, true, false},
		{rbac.AdminWrite, "adminWrite", true, true, false, false},
		{rbac.AdminOnly, "adminOnly", true, false, false, false},
		{custom, "billing", true, false, false, true},
		{rbac.NewGroup("empty"), "empty", false, false, false, false},
		{rbac.NewGroup("empty role", ""), "empty role", false, false, false, false},
		{none, "", false, false, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.name, row.group.String())
			require.Equal(t, row.name, fmt.Sprint(row.group))
			require.Equal(t, row.name == "", row.group.IsZero())
			for role, want := range map[rbac.Role]bool{
				rbac.Admin: row.admin, rbac.Maintainer: row.maintainer, rbac.Member: row.member,
				"accountant": row.accountant, "": false, "ADMIN": false, "stranger": false,
			} {
				require.Equal(t, want, row.group.Allows(role), role)
				err := row.group.Check(user{"u", role})
				if want {
					require.NoError(t, err)
					continue
				}
				var denied *rbac.DeniedError
				require.ErrorAs(t, err, &denied)
				require.Equal(t, role, denied.Role)
				require.Equal(t, row.name, denied.Group.String())
				require.EqualError(t, err, fmt.Sprintf("check role: %q is not in group %q", role, row.name))
			}
			require.Error(t, row.group.Check(nil))
		})
	}
}

func TestNewGroupCopiesRoles(t *testing.T) {
	roles := []rbac.Role{rbac.Member}
	group := rbac.NewGroup("g", roles...)
	roles[0] = rbac.Admin
	require.True(t, group.Allows(rbac.Member))
	require.False(t, group.Allows(rbac.Admin))
}

func TestContext(t *testing.T) {
	ctx := rbac.NewContext(context.Background(), user{"ada", rbac.Admin})
	u, ok := rbac.FromContext[user](ctx)
	require.True(t, ok)
	require.Equal(t, "ada", u.name)
	p, ok := rbac.FromContext[rbac.Principal](ctx)
	require.True(t, ok)
	require.Equal(t, rbac.Admin, p.Role())

	_, ok = rbac.FromContext[*robot](ctx)
	require.False(t, ok, "another type")
	for _, empty := range []context.Context{context.Background(), rbac.NewContext(context.Background(), nil)} {
		_, ok = rbac.FromContext[user](empty)
		require.False(t, ok)
		_, ok = rbac.FromContext[rbac.Principal](empty)
		require.False(t, ok)
	}
	u, _ = rbac.FromContext[user](rbac.NewContext(ctx, user{"max", rbac.Member}))
	require.Equal(t, "max", u.name, "the innermost value")
}
