package rbac_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed93082962/agenthost/rbac"
)

// account is the principal type of the example's server.
type account struct {
	Name  string
	roles []rbac.Role
}

func (a account) Roles() []rbac.Role { return a.roles }

func Example() {
	accounts := map[string]account{
		"t1": {Name: "ada", roles: []rbac.Role{rbac.Member, rbac.Admin}},
		"t2": {Name: "mel", roles: []rbac.Role{rbac.Member}},
	}
	guard := rbac.Middleware{
		Principal: func(r *http.Request) (rbac.Principal, error) {
			a, ok := accounts[r.Header.Get("X-Token")]
			if !ok {
				return nil, errors.New("unknown token")
			}
			return a, nil
		},
		Rejected: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
			http.Error(w, err.Error(), status)
		},
	}
	handler := guard.Require(rbac.AdminOnly, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, _ := rbac.FromContext[account](r.Context())
		fmt.Fprintln(w, "hello", a.Name)
	}))

	for _, token := range []string{"t1", "t2", "t3"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Token", token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 hello ada
	// 403 check role: none of ["member"] is in group "adminOnly"
	// 401 unknown token
}

func ExampleNewGroup() {
	const accountant rbac.Role = "accountant"
	billing := rbac.NewGroup("billing", rbac.Admin, accountant)
	fmt.Println(billing.Allows(accountant), billing.Allows(rbac.Maintainer))
	fmt.Println(billing.Check(account{Name: "mel", roles: []rbac.Role{rbac.Member}}))
	// Output:
	// true false
	// check role: none of ["member"] is in group "billing"
}
