package rbac_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed93082962/agenthost/rbac"
)

// account is the principal type of the example's server.
type account struct {
	Name string
	role rbac.Role
}

func (a account) Role() rbac.Role { return a.role }

func Example() {
	accounts := map[string]account{"t1": {"ada", rbac.Admin}, "t2": {"mel", rbac.Member}}
	only := func(group rbac.Group, next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			a, ok := accounts[r.Header.Get("X-Token")]
			if !ok {
				http.Error(w, "unknown token", http.StatusUnauthorized)
				return
			}
			if err := group.Check(a); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			next(w, r.WithContext(rbac.NewContext(r.Context(), a)))
		}
	}
	handler := only(rbac.AdminOnly, func(w http.ResponseWriter, r *http.Request) {
		a, _ := rbac.FromContext[account](r.Context())
		fmt.Fprintln(w, "hello", a.Name)
	})

	for _, token := range []string{"t1", "t2", "t3"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Token", token)
		w := httptest.NewRecorder()
		handler(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 hello ada
	// 403 check role: "member" is not in group "adminOnly"
	// 401 unknown token
}

func ExampleNewGroup() {
	const accountant rbac.Role = "accountant"
	billing := rbac.NewGroup("billing", rbac.Admin, accountant)
	fmt.Println(billing.Allows(accountant), billing.Allows(rbac.Maintainer))
	fmt.Println(billing.Check(account{"mel", rbac.Member}))
	// Output:
	// true false
	// check role: "member" is not in group "billing"
}
