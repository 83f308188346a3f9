package rbac_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed93082962/agenthost/rbac"
)

// account is a principal of the caller's own.
type account struct {
	Name string
	role rbac.Role
}

func (a account) Role() rbac.Role { return a.role }

func ExampleGuard() {
	accounts := map[string]account{"t1": {"ada", rbac.Admin}, "t2": {"mel", rbac.Member}}
	guard := rbac.Guard{
		Authenticate: func(r *http.Request) (rbac.Principal, error) {
			a, ok := accounts[r.Header.Get("X-Token")]
			if !ok {
				return nil, errors.New("unknown token")
			}
			return a, nil
		},
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusUnauthorized
			if denied := (*rbac.DeniedError)(nil); errors.As(err, &denied) {
				status = http.StatusForbidden
			}
			http.Error(w, err.Error(), status)
		},
	}
	handler := guard.Only(rbac.AdminOnly, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
