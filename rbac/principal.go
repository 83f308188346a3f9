package rbac

import "context"

// Principal is the authenticated caller of a request. Servers implement it with their own type.
type Principal interface {
	// Roles returns the roles of the principal. One of them in a group is enough.
	Roles() []Role
}

type contextKey struct{}

// NewContext returns a context that carries p.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal of ctx as type P. It reports false if ctx has no principal or
// one of another type. FromContext[Principal] accepts every type.
func FromContext[P Principal](ctx context.Context) (P, bool) {
	p, ok := ctx.Value(contextKey{}).(P)
	return p, ok
}
