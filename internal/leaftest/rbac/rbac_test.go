package rbac_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/rbac"
)

type user struct {
	name string
	role rbac.Role
}

func (u user) Roles() []rbac.Role { return []rbac.Role{u.role} }

type robot struct{}

func (*robot) Roles() []rbac.Role { return []rbac.Role{"guest", rbac.Member} }

func TestCheckRole(t *testing.T) {
	for _, role := range []rbac.Role{rbac.Admin, rbac.Maintainer, rbac.Member} {
		require.NoError(t, role.Check())
	}
	for _, in := range []string{"", "Admin", "admin ", "owner", "admin\x00", "adminmaintainer"} {
		require.EqualError(t, rbac.Role(in).Check(), fmt.Sprintf("role %q: want admin, maintainer or member", in))
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
				require.Equal(t, []rbac.Role{role}, denied.Roles)
				require.Equal(t, row.name, denied.Group.String())
				require.EqualError(t, err, fmt.Sprintf("check role: none of [%q] is in group %q", role, row.name))
			}
			require.Error(t, row.group.Check(nil))
			require.Error(t, row.group.Check((*robot)(nil)))
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
	require.Equal(t, []rbac.Role{rbac.Admin}, p.Roles())

	_, ok = rbac.FromContext[*robot](ctx)
	require.False(t, ok, "another type")
	for _, empty := range []context.Context{
		context.Background(), rbac.NewContext(context.Background(), nil),
		rbac.NewContext(context.Background(), (*robot)(nil)),
	} {
		_, ok = rbac.FromContext[user](empty)
		require.False(t, ok)
		_, ok = rbac.FromContext[rbac.Principal](empty)
		require.False(t, ok)
		_, ok = rbac.FromContext[*robot](empty)
		require.False(t, ok)
	}
	u, _ = rbac.FromContext[user](rbac.NewContext(ctx, user{"max", rbac.Member}))
	require.Equal(t, "max", u.name, "the innermost value")
}

// many has any number of roles.
type many []rbac.Role

func (m many) Roles() []rbac.Role { return m }

func TestOneOfSeveralRolesIsEnough(t *testing.T) {
	for _, row := range []struct {
		roles many
		ok    bool
	}{
		{many{rbac.Member, rbac.Admin}, true}, {many{rbac.Admin}, true}, {many{"stranger", "", rbac.Admin}, true},
		{many{rbac.Member, rbac.Maintainer}, false}, {many{""}, false}, {many{}, false}, {nil, false},
	} {
		require.Equal(t, row.ok, rbac.AdminOnly.Check(row.roles) == nil, row.roles)
	}
}

func TestMiddleware(t *testing.T) {
	broken := errors.New("no such token")
	principals := map[string]rbac.Principal{"admin": many{rbac.Member, rbac.Admin}, "member": many{rbac.Member}, "none": many{}, "nothing": nil, "nil robot": (*robot)(nil)}
	calls := 0
	find := func(r *http.Request) (rbac.Principal, error) {
		calls++
		p, ok := principals[r.Header.Get("X-Token")]
		if !ok {
			return many{rbac.Admin}, broken // an error counts, whatever comes with it
		}
		return p, nil
	}
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := rbac.FromContext[many](r.Context())
		require.True(t, ok)
		_, _ = fmt.Fprint(w, p)
	})
	for _, row := range []struct {
		token  string
		status int
	}{{"admin", 200}, {"member", 403}, {"none", 403}, {"nothing", 401}, {"nil robot", 401}, {"unknown", 401}, {"", 401}} {
		t.Run(row.token, func(t *testing.T) {
			var got error
			hook := func(w http.ResponseWriter, r *http.Request, status int, err error) {
				got = err
				_, known := rbac.FromContext[rbac.Principal](r.Context())
				require.Equal(t, status == http.StatusForbidden, known, "a log can name the principal")
				w.WriteHeader(status)
			}
			for _, rejected := range []func(http.ResponseWriter, *http.Request, int, error){nil, hook} {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("X-Token", row.token)
				w := httptest.NewRecorder()
				calls = 0
				rbac.Middleware{Principal: find, Rejected: rejected}.Require(rbac.AdminOnly, served).ServeHTTP(w, r)
				require.Equal(t, row.status, w.Code)
				require.Equal(t, 1, calls)
				if rejected == nil {
					require.Equal(t, row.status == 401, w.Header().Get("WWW-Authenticate") != "")
				}
			}
			var denied *rbac.DeniedError
			switch {
			case row.status == 200:
				require.NoError(t, got)
			case row.token == "unknown" || row.token == "":
				require.ErrorIs(t, got, broken)
			default:
				require.ErrorAs(t, got, &denied)
			}
		})
	}
	for name, h := range map[string]http.Handler{
		"no function": rbac.Middleware{}.Require(rbac.AdminRead, served), "no group": rbac.Middleware{Principal: find}.Require(rbac.Group{}, served),
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Token", "admin")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.GreaterOrEqual(t, w.Code, 401, name)
	}
}
