package rbac

import "net/http"

// Guard puts a check of roles before handlers. Both fields are required.
type Guard struct {
	// Authenticate says who a request is from, or why that cannot be said. It is asked once for each request.
	Authenticate func(*http.Request) (Principal, error)

	// Refuse answers a request that goes no further: with the error of Authenticate (401, or 503 where credentials
	// could not be looked up), or a [*DeniedError] (403; 401 where its Role is "").
	Refuse func(http.ResponseWriter, *http.Request, error)
}

// Only lets requests of the group's roles through to next, where [FromContext] gives the principal. Refuse sees the
// principal of a request that was denied in the same way.
func (g Guard) Only(group Group, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := g.Authenticate(r)
		if err == nil {
			if p != nil {
				r = r.WithContext(NewContext(r.Context(), p))
			}
			err = group.Check(p)
		}
		if err != nil {
			g.Refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
