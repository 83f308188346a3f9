package catalog

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Components are the components of one kind of all tenants, and the rules that all kinds have. They
// are created from an In. Their methods fail with wire.NotFound if there is no component of a name.
type Components[T, In any] struct {
	s     *Service
	kind  componentKind
	table string
	path  string      // of the routes
	none  *wire.Error // there is no component of that name
	inUse wire.Code   // agents use it
	order string      // of a list, in SQL
	early bool        // a file is read only if the component that it replaces exists
	long  string      // a column of long texts, which a list has only the beginning of

	common  func(v *T) *wire.Component
	columns func(v *T) []column // without the common ones
	builtin []T                 // that every tenant has and no caller changes, sorted by name

	// apply sets the fields that an input has: all of them, or some. It adds the faults, and returns
	// the error of decoding the body.
	apply func(fields api.Fields, in In, v *T) error

	// prepare checks or completes a component that replaces before, which is zero for a new one.
	// Defaults to no check.
	prepare func(ctx context.Context, tx *store.Tx, before T, v *T) error

	// show completes components as clients see them, which may be those of a list.
	// Defaults to no change.
	show func(ctx context.Context, all []T, list bool) error

	// content is what agents that are bound to a component run of it, for its stored digest.
	// Defaults to no stored digest.
	content func(v T) ([]any, error)

	// hidden returns the agents that do not exist for the caller, whose components are not listed,
	// and permit fails with wire.NotFound for a component of one. Default to none.
	hidden func(ctx context.Context, caller api.Caller) (agents []string, err error)
	permit func(ctx context.Context, caller api.Caller, v T) error

	create, update, remove record[T]
}

// List returns a page of the components of the tenant, after the built-in ones.
func (c *Components[T, In]) List(ctx context.Context, caller api.Caller, page api.Page) (api.List[T], error) {
	return c.list(ctx, caller, page, "")
}

// list is List with a condition as [Components.page] has it.
func (c *Components[T, In]) list(ctx context.Context, caller api.Caller, page api.Page, and string, args ...any) (api.List[T], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[T]{}, err
	}

	if c.hidden != nil {
		hidden, err := c.hidden(ctx, caller)
		if err != nil {
			return api.List[T]{}, err
		}

		and, args = withoutAgents(and, args, hidden)
	}

	builtin := slices.DeleteFunc(slices.Clone(c.builtin), func(v T) bool {
		return !strings.Contains(searchText(c.common(&v).Name, c.common(&v).Title), strings.ToLower(page.Query))
	})
	from, to := min(page.Offset(), len(builtin)), min(page.Offset()+page.Size, len(builtin))
	stored, total, err := c.page(ctx, caller.TenantID, page.Query, page.Size-(to-from), max(0, page.Offset()-len(builtin)), and, args...)
	if err == nil && c.show != nil {
		err = c.show(ctx, stored, true)
	}

	return api.List[T]{Items: slices.Concat(builtin[from:to], stored), Total: len(builtin) + total}, err
}

// Get returns a component.
func (c *Components[T, In]) Get(ctx context.Context, caller api.Caller, name string) (T, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return *new(T), err
	}

	if v := c.builtinNamed(name); v != nil {
		return *v, nil
	}

	v, err := c.named(ctx, c.s.store.Read(), caller.TenantID, name)
	if err == nil && c.permit != nil {
		if err = c.permit(ctx, caller, v); errors.Is(err, wire.NotFound) {
			err = c.none
		}
	}

	return c.shown(ctx, v, err)
}

func (c *Components[T, In]) builtinNamed(name string) *T {
	i := slices.IndexFunc(c.builtin, func(v T) bool { return c.common(&v).Name == name })
	if i < 0 {
		return nil
	}

	return &c.builtin[i]
}

func (c *Components[T, In]) shown(ctx context.Context, v T, err error) (T, error) {
	one := []T{v}
	if err == nil && c.show != nil {
		err = c.show(ctx, one, false)
	}

	if err != nil {
		return *new(T), err
	}

	return one[0], nil
}

// Create creates a component. It fails with wire.NameTaken.
func (c *Components[T, In]) Create(ctx context.Context, caller api.Caller, in In) (T, error) {
	v, err := c.applied(in, *new(T))
	if err == nil {
		v, err = c.insert(ctx, caller, v)
	}

	return c.shown(ctx, v, err)
}

// applied returns v with the fields of an input. Without a title, the title is the name.
func (c *Components[T, In]) applied(in In, v T) (T, error) {
	fields := api.Fields{}
	decoded := c.apply(fields, in, &v)
	if common := c.common(&v); common.Title == "" {
		common.Title = common.Name
	}

	return v, settings.Err(fields, decoded)
}

// insert stores a new component.
func (c *Components[T, In]) insert(ctx context.Context, caller api.Caller, in T) (T, error) {
	var v T
	err := c.s.change(ctx, caller, func(tx *store.Tx) error {
		v = in
		common := c.common(&v)
		common.ID, common.Version = ids.New(), 1
		common.CreatedAt, common.UpdatedAt = wire.Time{Time: tx.Now}, wire.Time{Time: tx.Now}
		if c.prepare != nil {
			if err := c.prepare(ctx, tx, *new(T), &v); err != nil {
				return err
			}
		}

		columns, err := c.written(&v)
		if err != nil {
			return err
		}

		tx.Record(c.create(c.event(tx, v), *new(T), v))
		if err := insertRow(ctx, tx, c.table, columns); err != nil {
			return err
		}

		return c.s.CheckRoom(ctx, tx.Tx, caller.TenantID)
	})
	return v, err
}

// Replace replaces the fields of a component that the input has. expected is the version that the
// caller has read, or nil. It fails with wire.PreconditionFailed for another version, and with
// code.BuiltinReadonly. Without a difference it changes nothing.
func (c *Components[T, In]) Replace(ctx context.Context, caller api.Caller, name string, expected *int64, in In) (T, error) {
	var v T
	c.common(&v).Name = name
	if _, err := c.applied(in, v); err != nil {
		return *new(T), err
	}

	v, err := c.edit(ctx, caller, name, expected, c.update, func(before T) (T, error) { return c.applied(in, before) })
	return c.shown(ctx, v, err)
}

// edit stores what do returns for a component, and records it as an action.
func (c *Components[T, In]) edit(ctx context.Context, caller api.Caller, name string, expected *int64,
	action record[T], do func(before T) (T, error)) (T, error) {
	var v T
	err := c.s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := c.own(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}

		if v, err = do(before); err != nil {
			return err
		}

		if err := store.CheckVersion(expected, c.common(&before).Version); err != nil {
			return err
		}

		if c.prepare != nil {
			if err := c.prepare(ctx, tx, before, &v); err != nil {
				return err
			}
		}

		if reflect.DeepEqual(v, before) {
			return tx.Unchanged()
		}

		common := c.common(&v)
		common.Version, common.UpdatedAt = common.Version+1, wire.Time{Time: tx.Now}
		columns, err := c.written(&v)
		if err != nil {
			return err
		}

		tx.Record(action(c.event(tx, v), before, v))
		if err := updateRow(ctx, tx, c.table, columns); err != nil {
			return err
		}

		if more, err := grown(c.all(&before), c.all(&v)); err != nil || !more {
			return err
		}

		return c.s.CheckRoom(ctx, tx.Tx, caller.TenantID)
	})
	return v, err
}

// own returns a component that can be changed.
func (c *Components[T, In]) own(ctx context.Context, q db.Querier, tenantID, name string) (T, error) {
	if c.builtinNamed(name) != nil {
		return *new(T), code.BuiltinReadonly
	}

	return c.named(ctx, q, tenantID, name)
}

// Delete deletes a component. expected is the version that the caller has read, or nil. It fails
// with wire.PreconditionFailed for another version, with code.BuiltinReadonly, and with code.InUse
// or code.ToolInUse if agents use it.
func (c *Components[T, In]) Delete(ctx context.Context, caller api.Caller, name string, expected *int64) error {
	return c.s.change(ctx, caller, func(tx *store.Tx) error {
		v, err := c.own(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}

		if err := store.CheckVersion(expected, c.common(&v).Version); err != nil {
			return err
		}

		agents, err := agentsBound(ctx, tx, caller.TenantID, c.kind, name)
		if err != nil {
			return err
		}

		if len(agents) > 0 {
			return &wire.Error{Code: c.inUse, Data: wire.ErrorData{Agents: agents}}
		}

		tx.Record(c.remove(c.event(tx, v), v, v))
		return deleteRow(ctx, tx, c.table, c.common(&v).ID)
	})
}

func (c *Components[T, In]) event(tx *store.Tx, v T) auditlog.Event {
	return tx.Caller.Event().WithTarget(string(c.kind), c.common(&v).ID, c.common(&v).Name)
}

// routes returns the routes of a kind whose components are created from a JSON body.
func (c *Components[T, In]) routes() []api.Route {
	return append(c.commonRoutes(api.ListOf(c.List)), adminRoute(http.MethodPost, c.path, api.Call(http.StatusCreated, c.Create)))
}

// commonRoutes returns the routes that all kinds have.
func (c *Components[T, In]) commonRoutes(list api.Handler) []api.Route {
	return []api.Route{
		adminRoute(http.MethodGet, c.path, list),
		adminRoute(http.MethodGet, c.path+"/:name", showOf(c.Get)),
		adminRoute(http.MethodPut, c.path+"/:name", replaceOf(c.Replace)),
		adminRoute(http.MethodDelete, c.path+"/:name", api.DeleteBy("name", c.Delete)),
	}
}
