package rbac

import "context"

// Principal is who a request is from: a type of the caller's own, with what else is known of them.
type Principal interface {
	Role() Role
}

type contextKey struct{}

// NewContext returns a context that carries p.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal that ctx carries, as the type it was put in. It is false where there is none, or one
// of another type. FromContext[Principal] takes any.
func FromContext[P Principal](ctx context.Context) (P, bool) {
	p, ok := ctx.Value(contextKey{}).(P)
	return p, ok
}
