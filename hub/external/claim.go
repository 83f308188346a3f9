package external

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	maxClaimName   = 128 // bytes
	maxClaimValue  = 255 // bytes
	maxClaimValues = 100
)

// RequiredClaim is a claim that the users of a client must have with one of the values, such as a
// group or a domain. A claim may be a text, a truth value or a list of texts. Names and values are
// compared exactly. The claim is checked at each login.
type RequiredClaim struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// RoleClaim is a claim that decides the role of a user at each login, by its values. The highest
// role counts; a user without one of the values is a member.
type RoleClaim struct {
	Name string               `json:"name"`
	Map  map[string]rbac.Role `json:"map"`
}

// permits reports whether the user of the claims may sign in.
func (c client) permits(all claims) bool {
	return c.RequiredClaim == nil || slices.ContainsFunc(all.texts(c.RequiredClaim.Name), func(value string) bool {
		return slices.Contains(c.RequiredClaim.Values, value)
	})
}

// roleOf returns the role that the claims decide, or "" if the client has no such rule.
func (c client) roleOf(all claims) rbac.Role {
	if c.RoleClaim == nil {
		return ""
	}
	values := all.texts(c.RoleClaim.Name)
	for _, role := range []rbac.Role{rbac.Admin, rbac.Maintainer} {
		for _, value := range values {
			if c.RoleClaim.Map[value] == role {
				return role
			}
		}
	}
	return rbac.Member
}

// lacks reports whether a claim of the client's rules is missing.
func (c client) lacks(all claims) bool {
	return c.RequiredClaim != nil && all[c.RequiredClaim.Name] == nil || c.RoleClaim != nil && all[c.RoleClaim.Name] == nil
}

// checkClaims adds the faults of the rules of a client. An empty name removes a rule.
func (in ClientInput) checkClaims(faults api.Fields) {
	if r := in.RequiredClaim; r != nil && r.Name != "" {
		check(faults, "requiredClaim", checkRule(r.Name, r.Values))
	}
	if r := in.RoleClaim; r != nil && r.Name != "" {
		check(faults, "roleClaim", checkRule(r.Name, slices.Collect(maps.Keys(r.Map))))
		for _, role := range r.Map {
			if _, err := rbac.ParseRole(string(role)); err != nil {
				faults.Add("roleClaim", "must map to admin, maintainer or member")
			}
		}
	}
}

func checkRule(name string, values []string) string {
	if !isPlain(name, maxClaimName) {
		return "must have a name of at most 128 bytes without control characters"
	}
	if len(values) < 1 || len(values) > maxClaimValues || slices.ContainsFunc(values, func(v string) bool { return !isPlain(v, maxClaimValue) }) {
		return "must have 1 to 100 values of at most 255 bytes without control characters"
	}
	return ""
}

func isPlain(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// named returns nil for a rule without a name, which removes the stored one.
func named[T any](rule *T, name string) *T {
	if name == "" {
		return nil
	}
	return rule
}

// UnmarshalJSON reads a client whose member names are spelled exactly and occur once. Otherwise the
// one who checks a request and the hub could read different clients.
func (in *ClientInput) UnmarshalJSON(data []byte) error {
	if err := checkNames(data); err != nil {
		return fmt.Errorf("the body cannot be read: %w", err)
	}
	type plain ClientInput
	if err := checkExact(data, reflect.TypeFor[plain]()); err != nil {
		return err
	}
	return json.Unmarshal(data, (*plain)(in))
}

// checkExact returns an error if a member of an object differs from a field of the struct only in
// its letter case: encoding/json would accept it as the field.
func checkExact(data []byte, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	data = bytes.TrimSpace(data)
	if t.Kind() != reflect.Struct || len(data) == 0 || data[0] != '{' {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for name, value := range members {
		for i := range t.NumField() {
			field, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			switch {
			case field == name:
				if err := checkExact(value, t.Field(i).Type); err != nil {
					return err
				}
			case strings.EqualFold(field, name):
				return fmt.Errorf("the member %q must be spelled %q", api.Plain(name), field)
			}
		}
	}
	return nil
}
