package rbac

import "net/http"

// Middleware guards handlers of net/http. The zero value rejects every request.
type Middleware struct {
	// Principal authenticates a request. It returns nil, a nil pointer or an error for a request
	// without a valid credential. It is called once for each request.
	Principal func(*http.Request) (Principal, error)

	// Rejected writes the response to a request that may not call its handler. The status is 401 if
	// there is no principal, or 403 if no role of the principal is in the group. The error is that
	// of Principal, or a [*DeniedError]. Defaults to a response with only the text of the status, and
	// with WWW-Authenticate: Bearer for 401.
	Rejected func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// Require returns a handler that calls next for principals with a role of the group. The context of
// the request has the principal, see [FromContext].
func (m Middleware) Require(group Group, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p Principal
		var err error
		if m.Principal != nil {
			p, err = m.Principal(r)
		}

		if err != nil || isNil(p) {
			if err == nil {
				err = &DeniedError{Group: group}
			}

			m.reject(w, r, http.StatusUnauthorized, err)
			return
		}

		r = r.WithContext(NewContext(r.Context(), p))
		if err := group.Check(p); err != nil {
			m.reject(w, r, http.StatusForbidden, err)
			return
		}

		next.ServeHTTP(w, r)
	})
}

func (m Middleware) reject(w http.ResponseWriter, r *http.Request, status int, err error) {
	if m.Rejected != nil {
		m.Rejected(w, r, status, err)
		return
	}

	if status == http.StatusUnauthorized { // RFC 9110, section 11.6.1
		w.Header().Set("WWW-Authenticate", "Bearer")
	}

	http.Error(w, http.StatusText(status), status)
}
