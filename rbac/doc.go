// Package rbac checks permissions by role. A [Principal] has one [Role], a [Group] is a named set
// of roles, and [Group.Check] reports whether the principal's role is in the group. The package
// defines three roles and three groups; [NewGroup] returns others.
//
// The package does not depend on a server. Middleware authenticates a request, checks the group of
// the route, and stores the principal in the request's context:
//
//	if err := rbac.AdminOnly.Check(principal); err != nil { ... } // a *DeniedError: respond with 403
//	next.ServeHTTP(w, r.WithContext(rbac.NewContext(r.Context(), principal)))
//
// The default is to deny: the zero Group has no roles, and the empty Role is in no group. The
// package imports only the standard library.
package rbac
