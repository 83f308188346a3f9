// Package rbac decides who may do what by roles. A [Principal] has one [Role], a [Group] is a named set of roles, and
// [Group.Check] says whether the one is in the other. The three roles and the three groups that a small server needs are
// ready-made; a server with others makes its own with [NewGroup].
//
// The package knows no server: the caller says who a request is from and what a refusal looks like. [Guard] puts both
// before an http.Handler:
//
//	guard := rbac.Guard{Authenticate: whoIs, Refuse: answer}
//	mux.Handle("DELETE /users/{id}", guard.Only(rbac.AdminOnly, deleteUser))
//
// Whatever is not said is refused: the zero Group holds nobody, and a Role "" is in no group. The package imports the
// standard library only.
package rbac
