package identity

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// User is a user as administrators see it.
type User struct {
	ID          string    `json:"id"`
	Username    string    `json:"username"`
	DisplayName string    `json:"displayName"`
	Role        rbac.Role `json:"role"`
	Status      string    `json:"status"`
	AuthSource  string    `json:"authSource"`
	Issuer      string    `json:"issuer,omitempty"` // with Subject, who the user is at the identity provider
	Subject     string    `json:"subject,omitempty"`
	Email       string    `json:"email,omitempty"`
	LastLoginAt api.Time  `json:"lastLoginAt"`
	CreatedAt   api.Time  `json:"createdAt"`
}

func viewUser(m member) User {
	return User{
		ID: m.ID, Username: m.Username, DisplayName: m.DisplayName, Role: m.Role, Status: m.Status,
		AuthSource: m.AuthSource, Issuer: m.Issuer, Subject: m.Subject, Email: m.Email, LastLoginAt: api.Time(m.LastLoginAt), CreatedAt: api.Time(m.CreatedAt),
	}
}

// Users returns the users of the tenant, the oldest first.
func (s *Service) Users(ctx context.Context, caller api.Caller, page api.Page) (api.List[User], error) {
	users, total, err := membersOf(ctx, s.store.Read(), caller.TenantID, page)
	list := api.List[User]{Total: total}
	for _, m := range users {
		list.Items = append(list.Items, viewUser(m))
	}
	return list, err
}

// User returns a user of the tenant.
func (s *Service) User(ctx context.Context, caller api.Caller, id string) (User, error) {
	m, err := userOf(ctx, s.store.Read(), caller, id)
	return viewUser(m), err
}

// UserInput is the account of a new user.
type UserInput struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	Role        string `json:"role"`
	DisplayName string `json:"displayName"` // Defaults to the username.
}

func (in UserInput) validate() (member, error) {
	fields := api.Fields{}
	checkRole(fields, in.Role)
	m := checkAccount(fields, in.Username, in.Password, "displayName", in.DisplayName)
	return m, fields.Err()
}

// CreateUser creates a user, who must change the password after the first login. It fails with
// api.NameTaken if the username is in use, in any letter case.
func (s *Service) CreateUser(ctx context.Context, caller api.Caller, in UserInput) (User, error) {
	if s.cfg.External {
		return User{}, errNoPasswords
	}
	m, err := in.validate()
	if err != nil {
		return User{}, err
	}
	hash, err := s.hashPassword(ctx, knownShare("user "+caller.UserID, caller), in.Password)
	if err != nil {
		return User{}, err
	}
	err = s.change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		m = s.newMember(m, caller.TenantID, rbac.Role(in.Role), hash)
		m.MustChange = true
		if err := insertUser(ctx, tx, m); err != nil {
			return err
		}
		tx.Record(actionCreateUser.Record(m.event(caller.Event()), createUserDetail{string(m.Role), m.DisplayName}))
		return nil
	})
	return viewUser(m), err
}

// checkRole returns a required role, or adds its fault.
func checkRole(faults api.Fields, value string) rbac.Role {
	role, err := rbac.ParseRole(value)
	if err != nil {
		faults.Add("role", "must be admin, maintainer or member")
	}
	return role
}

// checkAccount adds the faults of the names and the password of a new user, and returns the member
// with the names.
func checkAccount(faults api.Fields, username, password, displayField, display string) member {
	m := member{Username: username, DisplayName: username}
	check := func(field, fault string) {
		if fault != "" {
			faults.Add(field, fault)
		}
	}
	check("username", validateUsername(username))
	check("password", validatePassword(username, password))
	if display != "" {
		m.DisplayName = checkDisplayName(faults, displayField, display)
	}
	return m
}

// newMember completes the member that checkAccount returned.
func (s *Service) newMember(m member, tenantID string, role rbac.Role, hash string) member {
	now := s.store.Now()
	m.ID = ids.New()
	m.TenantID = tenantID
	m.Role = role
	m.Status = statusActive
	m.AuthSource = sourceBuiltin
	m.PasswordHash = hash
	m.PasswordChangedAt = now
	m.CreatedAt = now
	m.UpdatedAt = now
	return m
}

// insertUser stores a new member under a name that is free.
func insertUser(ctx context.Context, tx *store.Tx, m member) error {
	err := insertMember(ctx, tx, m)
	if db.UniqueViolation(err) {
		return &api.Error{Code: api.NameTaken, Message: "The username is taken, in this or another letter case: choose another.", Cause: err}
	}
	return err
}

// parseID returns an id in the form in which ids are stored, or api.NotFound.
func parseID(text string) (string, error) {
	id, err := ids.Parse(text)
	if err != nil {
		return "", api.NotFound
	}
	return id.String(), nil
}

// userOf returns the user with the id in the caller's tenant.
func userOf(ctx context.Context, q db.Querier, caller api.Caller, id string) (member, error) {
	id, err := parseID(id)
	if err != nil {
		return member{}, err
	}
	m, err := memberByID(ctx, q, caller.TenantID, id)
	if errors.Is(err, errNoMember) {
		return member{}, api.NotFound.New("There is no such user.")
	}
	return m, err
}

// event returns e with the user as its target.
func (m member) event(e auditlog.Event) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = targetUser, m.ID, m.Username
	return e
}
