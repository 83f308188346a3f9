package catalog_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

const skillFile = `---
name: pdf
description: >-
  Reads PDF files.
  Use it for .pdf.
license: Complete terms in LICENSE.txt
allowed-tools:
  - Read
metadata:
  version: "1.0"
---
Run scripts/fields.py.
`

func TestSkillIsCreatedChangedAndDeleted(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada, eve, meg := s.As("acme", "ada", rbac.Maintainer), s.As("other", "eve", rbac.Admin), s.As("acme", "meg", rbac.Member)
		packed := zipOf(t, "pdf/SKILL.md", skillFile, "pdf/scripts/fields.py", "print()")
		res := send(t, ada, "POST", skills, "pdf.zip", packed, "title", "PDF", "type", "")
		v := res.Want(http.StatusCreated)
		require.Equal(t, `"1"`, res.Header.Get("Etag"))
		want := apitest.Object{
			"id": v["id"], "name": "pdf", "type": "community", "title": "PDF", "description": "Reads PDF files. Use it for .pdf.", "descriptionEn": "",
			"status": "ready", "hash": v["hash"], "size": v["size"], "version": 1.0, "createdAt": v["createdAt"], "updatedAt": v["createdAt"],
		}
		require.Equal(t, want, v)
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", v["hash"])
		for _, path := range []string{skills + "/pdf", "/api/v1/skills/pdf"} {
			require.Equal(t, want, meg.Get(path).Want(http.StatusOK))
			eve.Get(path).Error(http.StatusNotFound, wire.NotFound)
		}
		send(t, ada, "POST", skills, "pdf.zip", packed).Error(http.StatusConflict, wire.NameTaken)
		send(t, meg, "POST", skills, "pdf.zip", packed).Error(http.StatusForbidden, wire.Forbidden)
		require.Equal(t, v["hash"], send(t, eve, "POST", skills, "other.zip", packed, "type", "expert").Want(http.StatusCreated)["hash"])

		link := meg.Get("/api/v1/skills/pdf/download").Want(http.StatusOK)
		require.Equal(t, []any{v["hash"], v["size"]}, []any{link["hash"], link["size"]})
		require.Regexp(t, `^https://hub.example.com/artifacts/skills/[0-9a-f]{64}/pdf.zip\?expires=\d+&sig=.+`, link["url"])
		expires, err := time.Parse(time.RFC3339, link["expiresAt"].(string))
		require.NoError(t, err)
		require.InDelta(t, time.Hour, time.Until(expires), float64(time.Minute))

		send(t, ada, "POST", skills, "SKILL.md", "---\nname: writer\ntype: expert\n---\n").Want(http.StatusCreated)
		for query, names := range map[string]string{"": "pdf writer", "?type=expert": "writer", "?type=community": "pdf", "?q=WRI": "writer", "?page_size=1&page=2": "writer", "?page=3": ""} {
			for _, path := range []string{"/api/v1/skills", skills} {
				var found []string
				for _, item := range meg.Get(path + query).Items() {
					found = append(found, item["name"].(string))
				}
				require.Equal(t, names, strings.Join(found, " "), query)
			}
		}
		meg.Get("/api/v1/skills?type=other").Error(http.StatusBadRequest, wire.InvalidRequest)

		v = ada.Put(skills+"/pdf", apitest.Object{"type": "expert", "title": "P", "name": "x"}, "If-Match", `"1"`).Want(http.StatusOK)
		require.Equal(t, []any{"expert", "P", want["description"], 2.0}, []any{v["type"], v["title"], v["description"], v["version"]})
		ada.Put(skills+"/pdf", apitest.Object{}, "If-Match", "1").Error(http.StatusPreconditionFailed, wire.PreconditionFailed)
		ada.Put(skills+"/pdf", apitest.Object{"type": "other"}).Error(http.StatusBadRequest, wire.ValidationFailed)
		ada.Put(skills+"/none", apitest.Object{}).Error(http.StatusNotFound, wire.NotFound)
		v = send(t, ada, "PUT", skills+"/pdf/file", "SKILL.md", "---\nname: pdf\ndescription: New.\n---\n").Want(http.StatusOK)
		require.Equal(t, []any{"expert", "P", "New.", 3.0}, []any{v["type"], v["title"], v["description"], v["version"]})
		send(t, ada, "PUT", skills+"/pdf/file", "SKILL.md", "---\nname: other\n---\n").Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)
		send(t, ada, "PUT", skills+"/none/file", "SKILL.md", "---\nname: none\n---\n").Error(http.StatusNotFound, wire.NotFound)

		s.bind(t, "a", "skill", "pdf")
		require.Equal(t, apitest.Object{"agents": []any{"a"}}, ada.Delete(skills+"/pdf").Error(http.StatusConflict, code.InUse)["data"])
		require.Equal(t, http.StatusNoContent, ada.Delete(skills+"/writer").Status)
		require.Equal(t, http.StatusNoContent, eve.Delete(skills+"/pdf").Status)
		eve.Delete(skills+"/pdf").Error(http.StatusNotFound, wire.NotFound)
		entries := s.Audit("acme")
		require.Len(t, entries, 5)
		require.Contains(t, entries[0], `agent.create_skill pdf {"type":"community","hash":"sha256:`)
		require.Equal(t, `agent.update_skill pdf {"type":{"from":"community","to":"expert"},"title":{"from":"PDF","to":"P"}}`, entries[2])
		require.Contains(t, entries[3], `agent.replace_file_skill pdf {"description":{"from":`)
		require.Contains(t, entries[4], "agent.delete_skill writer {")
	})
}

func TestUploadsOfSkillsAreChecked(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.As("acme", "ada", rbac.Admin)
		invalid := func(content, message string) {
			t.Helper()
			require.Contains(t, send(t, ada, "POST", skills, "a.zip", content).Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)["message"], message)
		}
		for _, name := range []string{"pdf", "pdf.txt", "zip", "pdf.zip.exe", ".tar", "SKILL.md/x"} {
			require.Contains(t, send(t, ada, "POST", skills, name, skillFile).Error(http.StatusUnprocessableEntity, code.ArtifactInvalid)["message"], "must end with .zip, .tar.gz, .tgz, .md")
		}
		invalid("\x00\x01", "is not a .zip, a .tar.gz or a SKILL.md")
		invalid(zipOf(t, "SKILL.md", skillFile, "../evil", ""), `entry "../evil" is outside of the archive`)
		invalid(zipOf(t, "a/b", ""), "the archive has no SKILL.md")
		invalid("---\nname: a\ndescription: "+strings.Repeat("x", 2001)+"\n---\n", "must have at most 2000 characters")
		for _, text := range []string{`a\u202eb`, `\u2066x`, `a\u200bb`, `\u00ad`} {
			invalid("---\nname: a\ndescription: \""+text+"\"\n---\n", "The description in SKILL.md must not have")
		}
		invalid(zipOf(t, "SKILL.md", skillFile, "a\u2028b", ""), "control characters in its name")
		for _, name := range []string{"a\u200bb", "a\u00ad", "a\U000e0041", "x/\u2800"} {
			invalid(zipOf(t, "SKILL.md", skillFile, name, ""), "must not have invisible characters")
		}
		invalid(zipOf(t, "\u017fKILL.md", skillFile), "the archive has no SKILL.md")
		send(t, ada, "POST", skills, "a.zip", strings.Repeat("x", 20<<20+1)).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
		send(t, ada, "POST", skills, "SKILL.md", skillFile, "type", "other").Error(http.StatusBadRequest, wire.ValidationFailed)
		require.Empty(t, s.Audit("acme"))
	})
}
