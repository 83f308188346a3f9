package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// planted are files that the agent writes, with the path of the mark that they create if they are
// executed.
var planted = map[string]string{
	"mcpsrv.py": "open(%q, 'w')\n", "mcpsrv/__main__.py": "open(%q, 'w')\n", "json.py": "open(%q, 'w')\n", "sitecustomize.py": "open(%q, 'w')\n", "usercustomize.py": "open(%q, 'w')\n",
	"mcpsrv.js": "require('fs').writeFileSync(%q, '')\n", "node_modules/mcpsrv/index.js": "require('fs').writeFileSync(%q, '')\n",
	"mcpsrv.txt": ": > %q\n", "package.json": `{"name":"mcpsrv","main":"mcpsrv.js","bin":"mcpsrv.js","scripts":{"mcpsrv":": > %[1]s"}}`,
}

// edits are changes of an agent to the directory in which it works, while its MCP servers start.
// The server empty reports a start in a directory that is not empty, and leaves a file in its own.
func edits(t *testing.T) attack {
	mark := filepath.Join(t.TempDir(), "executed")
	servers := fmt.Sprintf(`m0: {transport: stdio, command: python3, args: [-m, mcpsrv]}, m1: {transport: stdio, command: python3, args: [-c, "import json, mcpsrv"]},
    m2: {transport: stdio, command: node, args: [-e, "require('mcpsrv')"]}, m3: {transport: stdio, command: node, args: [-e, "require('./mcpsrv.js')"]},
    m4: {transport: stdio, command: sh, args: [-c, ". ./mcpsrv.txt"]}, empty: {transport: stdio, command: %q, args: [mcp, empty, %q]}`, self, mark)
	allowed := "[Read, Write, Edit, mcp__empty]"
	s := startRuntime(t, "", fmt.Sprintf("  - {id: editor, model: m, permissionMode: acceptEdits, allowedTools: %s, provider: {protocol: openai, baseUrl: %q, apiKey: k}, mcpServers: {%s}}\n", allowed, upstream(t), servers))
	var files []string
	for name := range planted {
		files = append(files, name)
	}
	for _, name := range files { // also those that the agent may not write
		write(t, s.dir, name, fmt.Sprintf(planted[name], mark))
	}
	return attack{server: s, pause: 250 * time.Millisecond, other: s.goodRun, step: func(ctx context.Context, n int) error {
		name := files[n%len(files)]
		_ = os.Remove(filepath.Join(s.dir, name))
		input, _ := json.Marshal(object{"file_path": filepath.Join(s.dir, name), "content": fmt.Sprintf(planted[name], mark)})
		for _, message := range []string{"Write " + string(input), fmt.Sprintf("mcp__m%d__attack {}", n%5)} {
			if err := s.expect(ctx, "editor", message, "result: "); err != nil {
				return err
			}
		}
		if err := s.expect(ctx, "editor", `mcp__empty__attack {"mode":"`+[]string{"none", "end"}[n%2]+`"}`, []string{"result: done", "result: Error: mcp server"}[n%2], late); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil { // the file is protected
			write(t, s.dir, name, fmt.Sprintf(planted[name], mark))
		}
		if text, err := os.ReadFile(mark); err == nil {
			return fmt.Errorf("a server executed what the agent wrote, or its directory was not empty: %.100q", text)
		}
		return nil
	}}
}
