// Package rbac checks permissions by role. A [Principal] has roles, a [Group] is a named set of
// roles, and [Group.Check] reports whether one of the principal's roles is in the group. The package
// defines three roles and three groups; [NewGroup] returns others.
//
// The package does not depend on a server. [Middleware] authenticates a request with a function of
// the server, checks the group of the handler, and stores the principal in the request's context:
//
//	guard := rbac.Middleware{Principal: sessions.Principal}
//	mux.Handle("DELETE /users/{id}", guard.Require(rbac.AdminOnly, deleteUser))
//
// The default is to deny: the zero Group has no roles, the empty Role is in no group, and a
// principal without roles may call nothing. The package imports only the standard library.
package rbac
