package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
)

// reader reads objects of one kind.
type reader[T any] struct {
	c    *Client
	path string
}

// List yields the objects whose name or title contains search, or all of them.
func (r reader[T]) List(ctx context.Context, search string) iter.Seq2[T, error] {
	return list[T](ctx, r.c, r.path, url.Values{"q": {search}})
}

// Get returns the object with a name, or of providers with an id.
func (r reader[T]) Get(ctx context.Context, name string) (T, error) {
	return get[T](ctx, r.c, r.path+"/"+segment(name), nil)
}

// collection reads and changes objects of one kind.
type collection[T, U any] struct{ reader[T] }

func newCollection[T, U any](c *Client, path string) collection[T, U] {
	return collection[T, U]{reader[T]{c, path}}
}

// Update changes an object. A version other than 0 is that of the object which the caller has read:
// if the stored one is another, the error is [PreconditionFailed].
func (s collection[T, U]) Update(ctx context.Context, name string, version int64, update U) (T, error) {
	r, err := jsonRequest(http.MethodPut, s.path+"/"+segment(name), update)
	if err != nil {
		var result T
		return result, err
	}

	r.match(version)
	return decode[T](ctx, s.c, r)
}

// match adds the condition that the stored object has that version, unless it is 0.
func (r *request) match(version int64) {
	if version != 0 {
		r.header.Set("If-Match", `"`+strconv.FormatInt(version, 10)+`"`)
	}
}

// Delete deletes an object.
func (s collection[T, U]) Delete(ctx context.Context, name string) error {
	return done(ctx, s.c, http.MethodDelete, s.path+"/"+segment(name), nil)
}

// Catalog reads and changes objects that are created from JSON. Update replaces the whole object.
type Catalog[T, R any] struct{ collection[T, R] }

func newCatalog[T, R any](c *Client, path string) Catalog[T, R] {
	return Catalog[T, R]{newCollection[T, R](c, path)}
}

// Create creates an object.
func (s Catalog[T, R]) Create(ctx context.Context, object R) (T, error) {
	return send[T](ctx, s.c, http.MethodPost, s.path, object)
}
