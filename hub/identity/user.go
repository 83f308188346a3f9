package identity

import (
	"context"
	"database/sql"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) userRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/users" + path, Group: rbac.AdminOnly, Category: "user", Handle: handle}
	}
	return []api.Route{
		route(http.MethodGet, "", s.listUsers),
		route(http.MethodPost, "", s.createUser),
		route(http.MethodGet, "/:id", s.showUser),
		route(http.MethodPatch, "/:id", s.changeUser),
		route(http.MethodDelete, "/:id", s.deleteUser),
		route(http.MethodPost, "/:id/reset-password", s.resetUserPassword),
		route(http.MethodGet, "/:id/sessions", s.listUserSessions),
		route(http.MethodDelete, "/:id/sessions", s.endUserSessions),
		route(http.MethodGet, "/:id/tokens", s.listUserTokens),
		route(http.MethodDelete, "/:id/tokens/:tokenId", s.revokeUserToken),
	}
}

// userView is a user as administrators see them.
type userView struct {
	ID          string    `json:"id"`
	Username    string    `json:"username"`
	DisplayName string    `json:"displayName"`
	Role        rbac.Role `json:"role"`
	Status      string    `json:"status"`
	AuthSource  string    `json:"authSource"`
	LastLoginAt api.Time  `json:"lastLoginAt"`
	CreatedAt   api.Time  `json:"createdAt"`
}

func viewUser(m member) userView {
	return userView{
		ID: m.ID, Username: m.Username, DisplayName: m.DisplayName, Role: m.Role, Status: m.Status,
		AuthSource: m.AuthSource, LastLoginAt: api.Time(m.LastLoginAt), CreatedAt: api.Time(m.CreatedAt),
	}
}

func (s *Service) listUsers(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	users, total, err := membersOf(r.Context(), s.db.Read(), api.CallerOf(r).TenantID, page)
	if err != nil {
		return err
	}
	list := api.List[userView]{Total: total}
	for _, m := range users {
		list.Items = append(list.Items, viewUser(m))
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) showUser(w http.ResponseWriter, r *http.Request) error {
	m, err := s.userOf(r)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, viewUser(m))
}

// newUser is the body of POST /api/v1/admin/users.
type newUser struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	Role        string `json:"role"`
	DisplayName string `json:"displayName"` // Defaults to the username.
}

func (s *Service) createUser(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[newUser](w, r)
	if err != nil {
		return err
	}
	faults := api.Fields{}
	role := checkRole(faults, in.Role)
	m := checkAccount(faults, in.Username, in.Password, "displayName", in.DisplayName)
	if err := faults.Err(); err != nil {
		return err
	}
	hash, err := s.hashPassword(r.Context(), in.Password)
	if err != nil {
		return err
	}
	err = s.change(r, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) error {
		m = s.newMember(m, api.CallerOf(r).TenantID, role, hash)
		if err := insertUser(ctx, tx, m); err != nil {
			return err
		}
		return s.record(ctx, tx, actionCreateUser.Record(userEvent(r, m), createUserDetail{string(m.Role), m.DisplayName}))
	})
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, viewUser(m))
}

// checkRole notes what is wrong with a role that has to be given.
func checkRole(faults api.Fields, value string) rbac.Role {
	role, err := rbac.ParseRole(value)
	if err != nil {
		faults.Add("role", "must be admin, maintainer or member")
	}
	return role
}

// checkAccount notes what is wrong with what a new user is called and signs in with, and answers that part of the member.
func checkAccount(faults api.Fields, username, password, displayField, display string) member {
	m := member{Username: username, DisplayName: username}
	check := func(field, fault string) {
		if fault != "" {
			faults.Add(field, fault)
		}
	}
	check("username", validateUsername(username))
	check("password", validatePassword(password))
	if display != "" {
		m.DisplayName = checkDisplayName(faults, displayField, display)
	}
	return m
}

// newMember completes what checkAccount has begun.
func (s *Service) newMember(m member, tenantID string, role rbac.Role, hash string) member {
	now := s.now()
	m.ID, m.TenantID, m.Role, m.Status, m.AuthSource = ids.New(), tenantID, role, statusActive, sourceBuiltin
	m.PasswordHash, m.PasswordChangedAt, m.CreatedAt, m.UpdatedAt = hash, now, now, now
	return m
}

// insertUser stores a new member under a name that is free.
func insertUser(ctx context.Context, tx *sql.Tx, m member) error {
	err := insertMember(ctx, tx, m)
	if db.UniqueViolation(err) {
		return &api.Error{Code: api.NameTaken, Message: "The username is taken, in this or another letter case: choose another.", Cause: err}
	}
	return err
}

// pathID reads an id of the path, in the form in which ids are stored. What cannot be one names nothing.
func pathID(r *http.Request, name string) (string, error) {
	id, err := ids.Parse(r.PathValue(name))
	if err != nil {
		return "", api.NotFound
	}
	return id.String(), nil
}

// userOf is the user whom the path names, of the caller's tenant.
func (s *Service) userOf(r *http.Request) (member, error) {
	return userIn(r.Context(), s.db.Read(), r)
}

func userIn(ctx context.Context, q querier, r *http.Request) (member, error) {
	id, err := pathID(r, "id")
	if err != nil {
		return member{}, err
	}
	m, err := memberByID(ctx, q, api.CallerOf(r).TenantID, id)
	if errors.Is(err, errNoMember) {
		return member{}, api.NotFound.New("There is no such user.")
	}
	return m, err
}

// userEvent is the event of a request that is about the user m.
func userEvent(r *http.Request, m member) auditlog.Event {
	e := api.RequestEvent(r)
	e.TargetType, e.TargetID, e.TargetName = targetUser, m.ID, m.Username
	return e
}
