package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

func ExampleNew() {
	type scene struct {
		Name string `json:"name"`
	}
	create := func(w http.ResponseWriter, r *http.Request) error {
		in, err := api.Decode[scene](w, r)
		if err != nil {
			return err
		}
		faults := api.Fields{}
		in.Name = faults.Line("name", in.Name, 1, 64)
		if err := faults.Err(); err != nil {
			return err
		}
		return api.Encode(w, http.StatusCreated, in)
	}
	show := func(w http.ResponseWriter, r *http.Request) error {
		if r.PathValue("name") != "intro" {
			return wire.NotFound.New("No scene has this name: see /scenes for those that there are.")
		}
		return api.Encode(w, http.StatusOK, scene{"intro"})
	}

	handler, err := api.New(api.Config{
		Authenticate: func(r *http.Request) (api.Caller, error) {
			if api.Bearer(r) != "let-me-in" {
				return api.Caller{}, wire.Unauthenticated
			}
			return api.Caller{UserID: "1", TenantID: "default", RoleNow: rbac.Maintainer}, nil
		},
	},
		api.Route{Method: "POST", Path: "/scenes", Group: rbac.AdminWrite, Category: "agent", Handle: create},
		api.Route{Method: "GET", Path: "/scenes/:name", Group: rbac.AdminRead, Handle: show},
	)
	if err != nil {
		panic(err)
	}

	for _, request := range []struct{ method, path, token, body string }{
		{"POST", "/scenes", "let-me-in", `{"name":"  outro "}`},
		{"POST", "/scenes", "let-me-in", `{"name":""}`},
		{"POST", "/scenes", "", `{"name":"outro"}`},
		{"GET", "/scenes/finale", "let-me-in", ""},
		{"DELETE", "/scenes/intro", "", ""},
	} {
		r := httptest.NewRequest(request.method, request.path, strings.NewReader(request.body))
		r.Header.Set("X-Request-Id", "id")
		if request.token != "" {
			r.Header.Set("Authorization", "Bearer "+request.token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 201 {"name":"outro"}
	// 400 {"code":"validation_failed","message":"Some fields are invalid: correct them.","data":{"fields":{"name":"must not be empty"}},"requestId":"id"}
	// 401 {"code":"unauthenticated","message":"The request has no valid token: sign in, and send the access token as \"Authorization: Bearer TOKEN\".","requestId":"id"}
	// 404 {"code":"not_found","message":"No scene has this name: see /scenes for those that there are.","requestId":"id"}
	// 405 {"code":"method_not_allowed","message":"The path does not support the method: see the Allow header.","requestId":"id"}
}

func ExampleEncode() {
	w := httptest.NewRecorder()
	_ = api.Encode(w, http.StatusOK, api.List[string]{}) // items are never null
	fmt.Print(w.Body)
	// Output: {"items":[],"total":0}
}
