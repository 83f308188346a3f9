package catalog_test

import (
	"archive/zip"
	"bytes"
	"io"
	"mime/multipart"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/internal/ids"
)

const (
	tools      = "/api/v1/admin/tools"
	skills     = "/api/v1/admin/skills"
	toolSource = "export default {name: 'weather', description: 'd', call() {}}"
)

// named returns the file of a tool.
func named(name string) string {
	return "export default {name: '" + name + "', description: 'd', call() {}}"
}

// send sends a form with a file and fields, which are names and values.
func send(t testing.TB, c *apitest.Client, method, path, file, content string, fields ...string) apitest.Response {
	t.Helper()
	body, kind := form(t, file, content, fields...)
	return c.Do(method, path, body, "Content-Type", kind)
}

func form(t testing.TB, file, content string, fields ...string) (body io.Reader, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if file != "" {
		part, err := w.CreateFormFile("file", file)
		require.NoError(t, err)
		_, err = io.WriteString(part, content)
		require.NoError(t, err)
	}
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, w.WriteField(fields[i], fields[i+1]))
	}
	require.NoError(t, w.Close())
	return &b, w.FormDataContentType()
}

// zipOf returns a zip of files, which are names and contents.
func zipOf(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		require.NoError(t, err)
		_, err = io.WriteString(f, files[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String()
}

// bind creates an agent of acme that is bound to a component.
func (s *server) bind(t testing.TB, agent, kind, name string) {
	t.Helper()
	id := ids.New()
	_, err := s.db.Write().ExecContext(t.Context(), `INSERT INTO agents (id, tenant_id, name, title, title_en, description, description_en, icon, search,
			enabled, is_default, provider_id, model, system_prompt, max_turns, permission_mode, disallowed_tools, subagents, setting_sources,
			version, created_at, updated_at)
		VALUES ($1, 'acme', $2, '', '', '', '', '', '', TRUE, FALSE, 'demo', 'demo', '', 0, '', '', '', '', 1, 0, 0)`, id, agent)
	require.NoError(t, err)
	_, err = s.db.Write().ExecContext(t.Context(), `INSERT INTO agent_bindings (tenant_id, agent_id, kind, name, position, description)
		VALUES ('acme', $1, $2, $3, 0, '')`, id, kind, name)
	require.NoError(t, err)
}
