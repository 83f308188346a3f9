package hub_test

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/rbac"
)

// private requires that a response has nothing of the organization except what was sent.
func (o *org) private(request string, a response) {
	o.t.Helper()
	for _, mark := range append([]string{"of " + o.name, "only-" + o.name, "key-" + o.name, o.name + ".example", o.key}, o.ids...) {
		if !strings.Contains(request, mark) {
			require.NotContains(o.t, a.text, mark, request)
		}
	}
}

// withoutObjects are the routes without a parameter that name no object of an organization, with
// the reason. All other routes without a parameter are in references, or are lists.
var withoutObjects = map[string]string{
	"GET /health": "of the process", "GET /health/ready": "of the process", "GET /openapi.yaml": "a constant", "GET /openapi.json": "a constant", "GET /docs": "a constant",
	"GET /": "a constant", "GET /console": "a constant", "POST /console/session": "package external",
	"POST /console/session/refresh": "the credential names the session", "DELETE /console/session": "the credential names the session",
	"GET /.well-known/jwks.json": "public keys", "GET /auth/mode": "public", "GET /auth/org-check": "public", "GET /auth/login": "package external",
	"POST /auth/login": "it does not exist", "GET /auth/callback": "package external", "POST /auth/exchange": "package external",
	"POST /auth/backchannel-logout": "package external", "POST /auth/refresh": "the credential names the session", "POST /auth/logout": "the credential names the session", "POST /auth/sessions": "the credential names the session",
	"GET /api/v1/ops/tenant-clients": "it takes the operations key", "POST /api/v1/ops/tenant-clients": "it takes the operations key",
	"GET /api/v1/admin/settings": "of the process", "GET /api/v1/admin/audit-logs/verify": "it has the length of a chain, which is read by lists",
}

// capabilities are the routes with a parameter that is itself the permission.
var capabilities = map[string]string{
	"GET /console/:page": "a constant", "GET /console/:page/:item": "a constant", "GET /console/:page/:item/:part": "a constant",
	"GET /console/assets/:version/:folder/:file":  "a file of the program",
	"POST /api/v1/admin/users/:id/reset-password": "it does not exist in external mode",
	"GET /artifacts/tools/:hash/:name":            "files of tools are public", "GET /artifacts/skills/:hash/:name": "the link is signed",
	"DELETE /api/v1/ops/tenant-clients/:org": "it takes the operations key",
	"GET /auth/callback/:org":                "the parameters of a login are its credential",
}

// requestBodies are those of requests for an object, where {} is invalid. A query is that of a GET
// request.
var requestBodies = map[string]string{
	"PUT /api/v1/admin/agents/:name":                       `{"providerId":"demo","model":"demo"}`,
	"PUT /api/v1/admin/agents/:name/tools":                 `{"items":[]}`,
	"PUT /api/v1/admin/agents/:name/skills":                `{"items":[]}`,
	"PUT /api/v1/admin/agents/:name/mcps":                  `{"items":[]}`,
	"PUT /api/v1/admin/agents/:name/knowledge":             `{"items":[]}`,
	"PUT /api/v1/admin/providers/:id":                      `{"name":"n","protocol":"openai"}`,
	"PUT /api/v1/admin/providers/:id/key":                  `{"apiKey":"key"}`,
	"PUT /api/v1/admin/tools/:name/file":                   form("a.ts", "export default {name: 'same', description: 'd', call() {}}"),
	"PUT /api/v1/admin/skills/:name/file":                  form("SKILL.md", "---\nname: same\ndescription: d\n---\ntext\n"),
	"PUT /api/v1/admin/scenes/:name":                       `{"agentName":"same"}`,
	"PUT /api/v1/admin/mcps/:name":                         `{"transport":"http","url":"https://mcp.example.com"}`,
	"PUT /api/v1/admin/knowledge/:name":                    `{"datasetId":"d"}`,
	"PUT /api/v1/admin/budgets/:kind/:name":                `{"period":"day","unit":"tokens","hard":1}`,
	"POST /api/v1/agents/:name/chat/sessions/:id/messages": `{"message":"hello"}`,
	"POST /api/v1/admin/providers/:id/reveal-key":          "",
	"GET /api/v1/admin/agents/:name/files/content":         "?path=notes.txt",
	"PATCH /api/v1/admin/users/:id":                        `{"role":"member"}`,
}

// references returns requests that create something with an object of the other organization.
func references(other *org) map[string][]string {
	only := "only-" + other.name
	provider := `"providerId":"demo","model":"demo"`
	all := map[string][]string{
		"POST /api/v1/admin/agents/import": {other.export},
		"POST /api/v1/admin/scenes":        {`{"name":"x","agentName":"` + only + `"}`},
		"POST /api/v1/admin/aigc/verify":   {`{"aigc":` + cmp.Or(other.label, "{}") + `}`},
		"POST /api/v1/chat/push":           {pushed("x", only, "mine")},
		// Without references.
		"POST /api/v1/admin/invites": nil, "POST /api/v1/cli/issue-token": nil, "POST /api/v1/admin/providers": nil, "POST /api/v1/admin/providers/probe": nil,
		"POST /api/v1/admin/tools": nil, "POST /api/v1/admin/skills": nil, "POST /api/v1/admin/mcps": nil, "POST /api/v1/admin/knowledge": nil, "POST /api/v1/admin/users": nil,
		"PUT /api/v1/admin/aigc/config": nil, "DELETE /api/v1/admin/aigc/config": nil, "POST /api/v1/admin/aigc/config/rotate-key": nil,
	}
	for _, field := range []string{"tools", "skills", "mcps", "knowledge"} {
		all["POST /api/v1/admin/agents"] = append(all["POST /api/v1/admin/agents"], `{"name":"x",`+provider+`,"`+field+`":["`+only+`"]}`)
		all["PUT /api/v1/admin/agents/same/"+field] = []string{`{"items":["` + only + `"]}`}
	}
	for _, id := range other.sample {
		all["POST /api/v1/admin/agents"] = append(all["POST /api/v1/admin/agents"], `{"name":"x","providerId":"`+id+`","model":"m"}`)
	}
	return all
}

var parameter = regexp.MustCompile(`:\w+`)

// expand returns the paths of a route with the values of its parameters. In each, one value at
// least is of the other organization.
func (o *org) expand(t *testing.T, path string, other *org) (paths []string) {
	names := parameter.FindAllString(path, -1)
	var fill func(path string, rest []string, foreign bool)
	fill = func(path string, rest []string, foreign bool) {
		if len(rest) == 0 {
			if foreign {
				paths = append(paths, path)
			}
			return
		}
		own, others := o.ids[:1], other.sample
		switch rest[0] {
		case ":name":
			own, others = []string{"same"}, []string{"only-" + other.name}
		case ":kind":
			own, others = []string{"agent"}, nil
		case ":id", ":tokenId", ":message", ":upload":
			own = o.users[:1]
		default:
			require.FailNow(t, "a parameter without values", path)
		}
		for _, value := range own {
			if !foreign && len(rest) == 1 {
				break
			}
			fill(strings.Replace(path, rest[0], value, 1), rest[1:], foreign)
		}
		for _, value := range others {
			fill(strings.Replace(path, rest[0], value, 1), rest[1:], true)
		}
	}
	fill(path, names, false)
	return paths
}

var changing = regexp.MustCompile(`"(expiresAt|lastUsedAt|last_used_at|lastSeenAt|last_seen_at|url|downloadUrl|current|uptimeSeconds)":("[^"]*"|[0-9.]+|null|true|false)`)

// contentHash is keyed with a secret that a migration creates.
var contentHash = regexp.MustCompile(`"contentHash":"[^"]*"`)

// snapshot returns all that the organization can read, but for a file, of which the audit log has
// each download.
func (o *org) snapshot() map[string]string {
	o.t.Helper()
	all := map[string]string{}
	for _, route := range o.Routes() {
		name := route.Method + " " + route.Path
		if route.Method != http.MethodGet || withoutObjects[name] != "" || capabilities[name] != "" || queryOf(name) != "" || strings.HasSuffix(name, "/deploy/logs") {
			continue
		}
		for i, value := range []string{"same", "only-" + o.name} {
			path := strings.ReplaceAll(route.Path, ":name", value)
			if i > 0 && path == route.Path {
				break
			}
			ids := []string{""}
			if strings.Contains(path, ":id") {
				ids = o.sample
			}
			for _, id := range ids {
				path := strings.NewReplacer(":id", id, ":message", id, ":upload", id).Replace(path)
				a := o.send(http.MethodGet, path, o.admin, "")
				all[path] = fmt.Sprint(a.status, " ", changing.ReplaceAllString(a.text, ""))
				if a.status != 200 {
					all[path] = fmt.Sprint(a.status) // the message has the id of the request
				}
			}
		}
	}
	return all
}

func queryOf(name string) string {
	if q := requestBodies[name]; strings.HasPrefix(q, "?") {
		return q
	}
	return ""
}

func bodyOf(route api.Route) string {
	name := route.Method + " " + route.Path
	body, found := requestBodies[name]
	if !found && (route.Method == http.MethodPut || route.Method == http.MethodPost) {
		body = "{}"
	}
	if queryOf(name) != "" {
		return ""
	}
	return body
}

// Every route is called with the ids and names of another organization, which has objects of the
// same names.
func TestOrganizationsAreIsolated(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	orgs := openOrgs(t, url)
	for _, o := range orgs {
		o.fillOpenAI()
	}
	for i, o := range orgs {
		other := orgs[1-i]
		before := other.snapshot()
		o.reads(t, other)
		o.foreign(t, other)
		o.refers(t, other)
		requireSame(t, before, other.snapshot())
		o.destroy(t, other)
		requireSame(t, before, other.snapshot())
		o.fill()
		o.fillOpenAI()
	}
}

func requireSame(t *testing.T, before, after map[string]string) {
	t.Helper()
	require.Len(t, after, len(before))
	for path, text := range before {
		require.Equal(t, text, after[path], path)
	}
}

// reads reads every list, and every object of the organization with a name that the other has too.
func (o *org) reads(t *testing.T, other *org) {
	t.Helper()
	found := 0
	for path, text := range o.snapshot() {
		other.private(path, response{text: text})
		if strings.HasPrefix(text, "200") {
			found++
		}
	}
	require.Greater(t, found, 40)
	a := o.send(http.MethodGet, agents+"/same/files/content?path=notes.txt", o.admin, "")
	require.Contains(t, a.text, "of "+o.name)
	other.private("", a)
	for _, list := range []string{agents, tools, skills, scenes, mcps, knowledge, providers, "/api/v1/agents", "/api/v1/skills", "/api/v1/providers"} {
		for _, q := range []string{other.name, "only-" + other.name, "of " + other.name} {
			path := list + "?q=" + strings.ReplaceAll(q, " ", "+")
			require.Empty(t, o.send(http.MethodGet, path, o.admin, "").want(200)["items"], path)
		}
	}
	require.Empty(t, o.send(http.MethodGet, allChats+"?agent=only-"+other.name, o.admin, "").want(200)["items"])
}

// foreign calls every route that names an object.
func (o *org) foreign(t *testing.T, other *org) {
	t.Helper()
	references := references(other)
	for _, route := range o.Routes() {
		name := route.Method + " " + route.Path
		if withoutObjects[name] != "" || capabilities[name] != "" || route.Prefix {
			continue
		}
		if !strings.Contains(route.Path, ":") {
			_, known := references[name]
			require.True(t, known || route.Method == http.MethodGet || name == "POST /auth/change-password",
				"%s is not in references: with which objects of another organization can it be called?", name)
			continue
		}
		for _, path := range o.expand(t, route.Path, other) {
			for _, token := range []string{o.admin, o.member} {
				if token == o.member && !route.Group.IsZero() && !route.Group.Allows(rbac.Member) {
					continue
				}
				a := o.send(route.Method, path+queryOf(name), token, bodyOf(route))
				require.Equal(t, http.StatusNotFound, a.status, "%s %s: %s", route.Method, path, a.text)
				other.private(path, a)
			}
		}
	}
	o.foreignOfOpenAI(t, other)
	for _, id := range []string{other.wait, "x"} {
		a := o.send(http.MethodPost, o.asking, o.admin, `{"answers":[{"id":"`+id+`","decision":"approve"}]}`)
		require.Equal(t, http.StatusConflict, a.status, a.text)
		other.private(id, a)
	}
	for _, path := range []string{
		"/runtime/" + other.name + "/same/v1/agents/same", "/runtime/" + other.name + "/only-" + other.name + "/v1/files",
		"/runtime/" + o.name + "/only-" + other.name + "/v1/files", "/runtime/only-" + other.name + "/v1/files",
	} {
		a := o.send(http.MethodGet, path, o.admin, "", "X-Api-Key", o.key)
		require.Equal(t, http.StatusUnauthorized, a.status, "%s: %s", path, a.text)
		other.private(path, a)
	}
}

// refers creates objects that name one of the other organization.
func (o *org) refers(t *testing.T, other *org) {
	t.Helper()
	for name, all := range references(other) {
		method, path, _ := strings.Cut(name, " ")
		for _, body := range all {
			kind := "application/json"
			if strings.HasSuffix(path, "/import") {
				kind = yamlType
			}
			a := o.send(method, path, o.admin, body, "Content-Type", kind)
			other.private(body, a)
			switch {
			case strings.HasSuffix(path, "/verify"):
				require.Equal(t, "unknown_key", a.want(200)["reason"])
			case path == pushChats: // its agent may be unknown
			default:
				require.GreaterOrEqual(t, a.status, 400, "%s: %s", name, a.text)
				require.Less(t, a.status, 500, "%s: %s", name, a.text)
			}
		}
	}
	o.made("POST", pushChats, pushed("same", "same", "changed"))
}

// destroy changes and deletes all that has the same name in both organizations.
func (o *org) destroy(t *testing.T, other *org) {
	t.Helper()
	o.made("POST", "/api/v1/admin/aigc/config/rotate-key", "")
	for round, method := range []string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodDelete, http.MethodDelete} {
		for _, route := range o.Routes() {
			if route.Method != method || strings.Contains(route.Path, ":id") || !strings.Contains(route.Path, ":name") || capabilities[route.Method+" "+route.Path] != "" {
				continue
			}
			for _, name := range []string{"same", "only-" + o.name} {
				path := strings.Replace(route.Path, ":name", name, 1)
				a := o.send(method, path, o.admin, bodyOf(route))
				require.Less(t, a.status, 500, "%s %s: %s", method, path, a.text)
				other.private(path, a)
			}
		}
		if round < 2 {
			continue
		}
		for _, name := range []string{"same", "only-" + o.name} {
			require.Eventually(t, func() bool {
				a := o.send("GET", agents+"/"+name+"/deploy", o.admin, "")
				return a.status == 404 || a.want(200)["state"] == "not_deployed"
			}, time.Minute, 20*time.Millisecond)
		}
	}
	for _, id := range o.ids {
		for _, path := range []string{providers, tokens, allChats} {
			a := o.send(http.MethodDelete, path+"/"+id, o.admin, "")
			require.Contains(t, []int{204, 404}, a.status, a.text)
		}
	}
	require.Equal(t, 204, o.send(http.MethodDelete, allChats+"/same", o.admin, "").status)
	require.Equal(t, 204, o.send(http.MethodDelete, "/api/v1/admin/aigc/config", o.admin, "").status)
	for _, list := range []string{agents, skills, scenes, mcps, knowledge, tokens, waits} {
		require.Empty(t, o.send(http.MethodGet, list, o.admin, "").want(200)["items"], list)
	}
}
