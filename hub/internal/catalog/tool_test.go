package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// withStore uses a store of artifacts that the test can change.
func withStore(driver blob.Driver) func(*catalog.Config) {
	return func(cfg *catalog.Config) {
		store, err := artifact.New(artifact.Config{Driver: driver, Keyring: cfg.Store.Keyring, PublicURL: "https://hub.example.com", TempDir: cfg.TempDir})
		if err != nil {
			panic(err)
		}
		cfg.Artifacts = store
	}
}

func TestToolIsCreatedChangedAndDeleted(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada, eve := s.As("acme", "ada", rbac.Maintainer), s.As("other", "eve", rbac.Admin)
		res := send(t, ada, "POST", tools, "weather.ts", toolSource, "title", " Weather ", "descriptionEn", "It rains.", "isDefault", "true")
		v := res.Want(http.StatusCreated)
		require.Equal(t, `"1"`, res.Header.Get("Etag"))
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", v["hash"])
		want := apitest.Object{
			"id": v["id"], "name": "weather", "title": "Weather", "description": "", "descriptionEn": "It rains.", "source": "custom", "status": "ready",
			"fileName": "weather.ts", "hash": v["hash"], "size": float64(len(toolSource)), "version": 1.0, "createdAt": v["createdAt"], "updatedAt": v["createdAt"],
		}
		require.Equal(t, want, v)
		require.Equal(t, want, ada.Get(tools+"/weather").Want(http.StatusOK))
		send(t, ada, "POST", tools, "weather.ts", toolSource).Error(http.StatusConflict, wire.NameTaken)
		send(t, eve, "POST", tools, "weather.ts", toolSource).Want(http.StatusCreated)

		// Fields that cannot be changed are ignored.
		body := apitest.Object{"title": "W", "description": "It\nsnows.", "name": "other", "isDefault": true, "source": "builtin", "version": 9}
		v = ada.Put(tools+"/weather", body, "If-Match", `"1"`).Want(http.StatusOK)
		require.Equal(t, []any{"W", "It\nsnows.", "It rains.", 2.0, "weather"}, []any{v["title"], v["description"], v["descriptionEn"], v["version"], v["name"]})
		ada.Put(tools+"/weather", body, "If-Match", `"1"`).Error(http.StatusPreconditionFailed, wire.PreconditionFailed)
		require.Equal(t, v, ada.Put(tools+"/weather", body).Want(http.StatusOK), "no difference")
		ada.Put(tools+"/weather", apitest.Object{"title": strings.Repeat("x", 129)}).Error(http.StatusBadRequest, wire.ValidationFailed)

		changed := strings.Replace(toolSource, "'d'", "'e'", 1)
		body1, kind := form(t, "weather.mjs", changed)
		ada.Do("PUT", tools+"/weather/file", body1, "Content-Type", kind, "If-Match", "1").Error(http.StatusPreconditionFailed, wire.PreconditionFailed)
		v = send(t, ada, "PUT", tools+"/weather/file", "weather.mjs", changed).Want(http.StatusOK)
		require.Equal(t, []any{"weather.mjs", 3.0, "W"}, []any{v["fileName"], v["version"], v["title"]})
		send(t, ada, "PUT", tools+"/weather/file", "a.js", "export default {name: 'other', description: 'd', call() {}}").Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)
		send(t, ada, "PUT", tools+"/none/file", "a.js", "export default {name: 'none'}").Error(http.StatusNotFound, wire.NotFound)
		got := ada.Get(tools + "/weather/download")
		require.Equal(t, changed, got.Text)
		require.Equal(t, "attachment; filename*=UTF-8''weather.mjs", got.Header.Get("Content-Disposition"))
		require.Equal(t, http.StatusNotModified, ada.Do("GET", tools+"/weather/download", nil, "If-None-Match", got.Header.Get("Etag")).Status)
		require.Equal(t, toolSource, eve.Get(tools+"/weather/download").Text)

		s.bind(t, "b", "tool", "weather")
		s.bind(t, "a", "tool", "weather")
		require.Equal(t, apitest.Object{"agents": []any{"a", "b"}}, ada.Delete(tools+"/weather").Error(http.StatusConflict, code.ToolInUse)["data"])
		require.Equal(t, http.StatusNoContent, eve.Delete(tools+"/weather").Status)
		eve.Delete(tools+"/weather").Error(http.StatusNotFound, wire.NotFound)
		for _, path := range []string{"/weather", "/weather/download"} {
			eve.Get(tools+path).Error(http.StatusNotFound, wire.NotFound)
			require.Equal(t, http.StatusOK, s.As("acme", "max", rbac.Member).Get(tools+path).Status)
		}
		eve.Put(tools+"/weather", apitest.Object{}).Error(http.StatusNotFound, wire.NotFound)
		entries := s.Audit("other")
		require.Len(t, entries, 2)
		require.Contains(t, entries[1], "agent.delete_tool weather {")
		entries = s.Audit("acme")
		require.Len(t, entries, 3)
		require.Contains(t, entries[0], `agent.create_tool weather {"fileName":"weather.ts","hash":"sha256:`)
		require.Equal(t, `agent.update_tool weather {"title":{"from":"Weather","to":"W"},"description":{"from":"","to":"It\nsnows."}}`, entries[1])
		require.Contains(t, entries[2], `agent.replace_file_tool weather {"fileName":{"from":"weather.ts","to":"weather.mjs"},"hash":`)
	})
}

func TestBuiltinToolsAreReadOnly(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.As("acme", "ada", rbac.Admin)
		count := len(builtintool.All())
		require.Len(t, ada.Get(tools).Items(), count)
		for _, b := range builtintool.All() {
			require.Equal(t, apitest.Object{
				"name": b.Name, "title": b.Title, "description": b.Description, "descriptionEn": b.DescriptionEN, "source": "builtin", "status": "ready",
			}, ada.Get(tools+"/"+b.Name).Want(http.StatusOK))
			require.Empty(t, ada.Get(tools+"/"+b.Name).Header.Get("ETag"))
		}
		ada.Put(tools+"/Bash", apitest.Object{"title": "x"}).Error(http.StatusForbidden, code.BuiltinReadonly)
		ada.Delete(tools+"/Bash").Error(http.StatusForbidden, code.BuiltinReadonly)
		send(t, ada, "PUT", tools+"/Bash/file", "a.ts", "export default {name: 'Bash'}").Error(http.StatusForbidden, code.BuiltinReadonly)
		send(t, ada, "POST", tools, "a.ts", named("Bash")).Error(http.StatusConflict, wire.NameTaken)
		ada.Get(tools+"/Bash/download").Error(http.StatusNotFound, wire.NotFound)
		require.Empty(t, s.Audit("acme"))

		for _, name := range []string{"bake", "zip_web"} {
			send(t, ada, "POST", tools, "a.ts", named(name), "title", "100% Web_").Want(http.StatusCreated)
		}
		names := func(query string) (all []string) {
			for _, v := range ada.Get(tools + query).Items() {
				all = append(all, v["name"].(string))
			}
			return all
		}
		require.Equal(t, []string{"WebFetch", "bake", "zip_web"}, names("?q=WEB"))
		require.Equal(t, []string{"bake", "zip_web"}, names("?q=0%25+w"))
		require.Equal(t, []string{"WebFetch", "bake"}, names("?q=web&page_size=2"))
		require.Equal(t, []string{"zip_web"}, names("?q=web&page_size=2&page=2"))
		require.Empty(t, names("?page=3"))
		require.Equal(t, float64(count+2), ada.Get(tools + "?page=3").Want(http.StatusOK)["total"])
		require.Equal(t, []string{"bake"}, names(fmt.Sprintf("?page_size=1&page=%d", count+1)))
	})
}

// A search finds what another hub has changed before.
func TestSearchOfToolsOnTwoHubs(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		other := open(t, s.url, nil)
		found := func(query string) (titles []string) {
			for _, on := range []*server{other, s} {
				titles = nil
				list := on.bob.Get(tools + "?q=" + query).Want(http.StatusOK)
				for _, v := range list["items"].([]any) {
					titles = append(titles, v.(object)["title"].(string))
				}
				require.EqualValues(t, len(titles), list["total"])
			}
			return titles
		}
		require.Empty(t, found("rain"))
		send(t, s.ada, "POST", tools, "a.ts", named("rainy")).Want(http.StatusCreated)
		require.Equal(t, []string{"rainy"}, found("RAIN"))
		s.ada.Put(tools+"/rainy", object{"title": "Weather"}).Want(http.StatusOK)
		require.Equal(t, []string{"Weather"}, found("rain"))
		require.Equal(t, []string{"Weather"}, found("weather"))
		s.ada.Put(tools+"/rainy", object{"title": "Sun"}).Want(http.StatusOK)
		require.Empty(t, found("weather"))
		require.Empty(t, s.eve.Get(tools+"?q=rainy").Items())
		s.ada.Delete(tools + "/rainy").Want(http.StatusNoContent)
		require.Empty(t, found("rain"))
	})
}

func TestUploadsOfToolsAreChecked(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), func(cfg *catalog.Config) {
		cfg.CheckTool = func(ctx context.Context, fileName, source string) (string, error) {
			if source == endless {
				return checkToolWithin(ctx, time.Second, fileName, source)
			}
			return checkTool(ctx, fileName, source)
		}
	})
	ada := s.As("acme", "ada", rbac.Admin)
	invalid := func(file, content, message string) {
		t.Helper()
		require.Contains(t, send(t, ada, "POST", tools, file, content).Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)["message"], message)
	}
	invalid("a.py", toolSource, "must end with .ts, .mts, .js, .mjs")
	invalid("a:b.ts", toolSource, "cannot be stored")
	invalid("a\u200bb.ts", toolSource, "its name must not have invisible characters")
	invalid("a.ts", "export default {\n  name: 1}", "a.ts: the name must be a literal")
	invalid("a.ts", "export default {", "a.ts:1:17: Expected identifier but found end of file")
	invalid("a.ts", "export default {name: 'wea' + 'ther'}", "a.ts: the name must be a literal")
	invalid("a.ts", endless, "a.ts did not load in time: the limit is 1s")
	invalid("a.ts", strings.Repeat("[", 400_000), "a.ts did not load: the limit of ") // of memory with the race detector
	for name, message := range map[string]string{
		"": "begin with a letter", "1a": "begin with a letter", "a b": "begin with a letter", strings.Repeat("a", 65): "begin with a letter",
		"a\\u202eb": "the name must be a literal", "a\u202eb": "the name \"a\\u202eb\" must begin", strings.Repeat("x", 200_000): "begin with a letter",
		"mcp__files__read": "names that begin with mcp__ are those of MCP servers", "Mcp__": "names that begin with mcp__ are those of MCP servers",
	} {
		invalid("a.ts", named(name), message)
	}
	for _, name := range []string{"bash", "BASH", "webfetch", "Todowrite"} {
		send(t, ada, "POST", tools, "a.ts", named(name)).Error(http.StatusConflict, wire.NameTaken)
	}
	large := toolSource + "\n//" + strings.Repeat("x", catalog.MaxToolFile-len(toolSource)-3)
	send(t, ada, "POST", tools, "a.ts", large+"x").Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
	send(t, ada, "POST", tools, "a.ts", large+strings.Repeat("x", 1<<20)).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
	send(t, ada, "POST", tools, "a.ts", toolSource, "title", strings.Repeat("x", 40<<10)).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
	send(t, ada, "POST", tools, "a.ts", toolSource, "title", "a\x00b").Error(http.StatusBadRequest, wire.ValidationFailed)
	send(t, ada, "POST", tools, "", "").Error(http.StatusBadRequest, wire.ValidationFailed)
	ada.Post(tools, apitest.Object{}).Error(http.StatusUnsupportedMediaType, code.UnsupportedMedia)
	ada.Do("POST", tools, strings.NewReader("--x\r\nContent-Disposition: form-data; name=a\r\n\r\nhalf"), "Content-Type", "multipart/form-data; boundary=x").Error(http.StatusBadRequest, wire.InvalidRequest)
	ada.Do("POST", tools, strings.NewReader("--x\r\n"+strings.Repeat("Content-Disposition: form-data; name=a\r\n\r\n\r\n--x\r\n", 40)),
		"Content-Type", "multipart/form-data; boundary=x").Error(http.StatusBadRequest, wire.InvalidRequest)
	require.Empty(t, s.Audit("acme"))
	send(t, ada, "POST", tools, "a.ts", large).Want(http.StatusCreated)
	send(t, s.As("acme", "max", rbac.Member), "POST", tools, "a.ts", large).Error(http.StatusForbidden, wire.Forbidden)
}

func TestConcurrentUploadsCreateOneTool(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.As("acme", "ada", rbac.Admin)
		var all sync.WaitGroup
		statuses := make([]int, 4)
		for i := range statuses {
			all.Go(func() { statuses[i] = send(t, ada, "POST", tools, "weather.ts", toolSource).Status })
		}
		all.Wait()
		require.ElementsMatch(t, []int{201, 409, 409, 409}, statuses)
		require.Len(t, s.Audit("acme"), 1)
	})
}

func TestMissingFilesAndTheSweep(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		driver := &blob.Memory{}
		s = open(t, s.url, withStore(driver))
		ada, eve := s.As("acme", "ada", rbac.Admin), s.As("other", "eve", rbac.Admin)
		send(t, ada, "POST", tools, "weather.ts", toolSource).Want(http.StatusCreated)
		send(t, eve, "POST", tools, "weather.ts", toolSource).Want(http.StatusCreated)
		send(t, ada, "POST", skills, "SKILL.md", "---\nname: pdf\n---\n").Want(http.StatusCreated)
		send(t, ada, "POST", tools, "b.ts", named("b")).Want(http.StatusCreated)
		for _, name := range []string{"b", "weather"} {
			s.bind(t, "agent-"+name, "tool", name)
		}
		s.bind(t, "writer", "skill", "pdf")
		deployment := func(name string) agent.Agent {
			config, err := s.Deployment(t.Context(), "acme", name)
			require.NoError(t, err)
			return config
		}
		sources := deployment("agent-weather").CustomTools
		require.Len(t, sources, 1)
		require.Regexp(t, `^https://hub.example.com/artifacts/tools/[0-9a-f]{64}/weather.ts$`, sources[0].URL)
		require.Equal(t, "weather.ts", sources[0].FileName)
		linked := deployment("writer").SkillArchives
		require.Len(t, linked, 1)
		require.Contains(t, linked[0].URL, "sig=")
		_, err := s.Deployment(t.Context(), "other", "agent-weather")
		require.ErrorIs(t, err, wire.NotFound)

		require.Equal(t, http.StatusNoContent, eve.Delete(tools+"/weather").Status)
		count := func() (n int) {
			for _, err := range driver.List(t.Context(), "") {
				require.NoError(t, err)
				n++
			}
			return n
		}
		require.Equal(t, 3, count())
		n, err := s.cfg.Artifacts.Sweep(t.Context(), -time.Hour, s.Referenced)
		require.NoError(t, err)
		require.Zero(t, n, "a row of another tenant names the blob")
		send(t, ada, "PUT", tools+"/b/file", "b.ts", strings.Replace(named("b"), "'d'", "'new'", 1)).Want(http.StatusOK)
		n, err = s.cfg.Artifacts.Sweep(t.Context(), -time.Hour, s.Referenced)
		require.NoError(t, err)
		require.Equal(t, 1, n)

		for info, err := range driver.List(t.Context(), "") {
			require.NoError(t, err)
			require.NoError(t, driver.Delete(t.Context(), info.Key, time.Now().Add(time.Hour)))
		}
		require.Equal(t, "missing", ada.Get(tools + "/weather").Want(http.StatusOK)["status"])
		ada.Get(tools+"/weather/download").Error(http.StatusNotFound, wire.NotFound)
		ada.Get("/api/v1/skills/pdf/download").Error(http.StatusNotFound, wire.NotFound)
		require.Empty(t, deployment("agent-weather").CustomTools)
		v := send(t, ada, "PUT", tools+"/weather/file", "weather.ts", toolSource).Want(http.StatusOK)
		require.Equal(t, []any{"ready", 1.0}, []any{v["status"], v["version"]})
	})
}
