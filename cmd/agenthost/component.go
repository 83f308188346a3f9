package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/internal/skillzip"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// skillFile is the name of the file of a skill, in any letter case.
const skillFile = "SKILL.md"

// masked replaces a stored secret in requests and responses.
const masked = "***"

// A component is a tool, a skill or an MCP server that agents of a bundle use.
type component struct {
	kind, name   string
	key          string   // of the agent that has it
	former, next []string // lines of settings, in the hub and in the bundle; nil if the hub has none
	secrets      bool     // that cannot be compared
	store        func(ctx context.Context) error
}

// toolComponent returns the tool of a file. A worker process reads its name, as the hub does.
func (a *app) toolComponent(ctx context.Context, c *client.Client, path string) (component, error) {
	source, err := readRegular(path)
	if err != nil {
		return component{}, err
	}

	file := filepath.Base(path)
	name, err := js.Config{}.NameOf(ctx, file, string(source))
	if err != nil {
		return component{}, fmt.Errorf("%w: %s: %w", errRejected, file, err)
	}

	stored, err := c.Tools.Get(ctx, name)
	if err != nil && !errors.Is(err, wire.NotFound) {
		return component{}, err
	}

	p := component{kind: "tool", name: name, key: "customTools", next: []string{fmt.Sprintf("file: sha256:%x", sha256.Sum256(source))}}
	if err == nil {
		p.former = []string{"file: " + cmp.Or(stored.Hash, stored.Source)}
	}

	p.store = func(ctx context.Context) error {
		upload := client.Upload{FileName: file, Content: a.uploading(path, source)}
		if p.former == nil {
			_, err := c.Tools.Create(ctx, upload)
			return err
		}

		_, err := c.Tools.Replace(ctx, name, 0, upload)
		return err
	}
	return p, nil
}

// skillComponent returns the skill of a directory.
func (a *app) skillComponent(ctx context.Context, c *client.Client, dir string) (component, error) {
	packed, base, err := packSkill(dir)
	if err != nil {
		return component{}, fmt.Errorf("pack %s: %w", dir, err)
	}

	p := component{kind: "skill", name: skillName(packed, base), key: "hub.skills"}
	if p.next, err = filesOf(packed); err != nil {
		return component{}, fmt.Errorf("pack %s: %w", dir, err)
	}

	stored, err := c.Skills.Download(ctx, p.name, 0)
	if err == nil {
		defer func() { _ = stored.Close() }()
		var archive []byte
		if archive, err = readBounded(p.name, stored); err == nil {
			p.former, err = filesOf(archive)
		}
	}

	if err != nil && !errors.Is(err, wire.NotFound) {
		return component{}, fmt.Errorf("compare skill %s: %w", p.name, err)
	}

	p.store = func(ctx context.Context) error {
		upload := client.Upload{FileName: base + ".zip", Content: a.uploading(dir, packed)}
		_, err := c.Skills.Create(ctx, upload)
		if errors.Is(err, wire.NameTaken) {
			_, err = c.Skills.Replace(ctx, p.name, 0, upload)
		}

		return err
	}
	return p, nil
}

// skillName returns the name that a hub gives to the skill of an archive. The hub reports faults.
func skillName(archive []byte, folder string) string {
	declared := ""
	if reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive))); err == nil {
		for _, file := range reader.File {
			if content, err := file.Open(); err == nil && strings.EqualFold(file.Name, skillFile) {
				text, _ := io.ReadAll(io.LimitReader(content, skill.MaxBytes))
				document, _ := skill.Parse(text)
				declared = document.Name
				_ = content.Close()
			}
		}
	}

	name, _ := skillzip.SkillName(declared, folder)
	return name
}

// filesOf returns a line for each file of the archive of a skill, sorted.
func filesOf(archive []byte) ([]string, error) {
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}

	lines := []string{}
	for _, file := range reader.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}

		content, err := file.Open()
		if err != nil {
			return nil, err
		}

		sum := sha256.New()
		_, err = io.Copy(sum, io.LimitReader(content, maxFile))
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, err
		}

		name := file.Name
		if strings.EqualFold(name, skillFile) {
			name = skillFile // as the hub writes it
		}

		lines = append(lines, fmt.Sprintf("%s: sha256:%x", name, sum.Sum(nil)))
	}

	slices.Sort(lines)
	return lines, nil
}

// serverComponent returns an MCP server of an agent. What the file does not have, such as the
// title, remains as it is in the hub.
func (b *bundle) serverComponent(ctx context.Context, c *client.Client, i int, name string) (component, error) {
	key := "mcpServers." + name
	stored, err := c.MCPs.Get(ctx, name)
	existed := err == nil
	if err != nil && !errors.Is(err, wire.NotFound) {
		return component{}, err
	}

	server := b.values.Agents[i].MCPServers[name]
	req := wire.MCPRequest{Name: name, Title: stored.Title, Description: stored.Description}
	if existed {
		req.Enabled = &stored.Enabled
	}

	if err := convert(server, &req); err != nil {
		return component{}, err
	}

	p := component{kind: "MCP server", name: name, key: key}
	var missing []string
	value := func(secret agent.Secret) string {
		text := string(secret)
		for _, name := range b.unset {
			if strings.Contains(text, "${"+name+"}") {
				missing = append(missing, name)
				return masked
			}
		}

		p.secrets = true
		return text
	}
	req.Env, req.Headers = mapped(server.Env, value), mapped(server.Headers, value)
	for _, variable := range b.unset { // of the query
		if reference := "${" + variable + "}"; strings.Contains(req.URL, reference) {
			missing = append(missing, variable)
			req.URL = strings.ReplaceAll(req.URL, reference, masked)
		}
	}

	at := fmt.Sprintf("agents[%d].%s", i, key)
	wrong := notAddress(b.references.Agents[i].MCPServers[name].URL, b.getenv)
	if wrong == "" {
		written := b.file.Agents[i].MCPServers[name]
		explicit := agentvalue.References(strings.Join(append([]string{written.Command, written.CWD}, written.Args...), " "))
		wrong = addReferences(&req, explicit, b.getenv, func(name string) string {
			if text := b.getenv(name); text != "" {
				return value(agent.Secret(text))
			}

			missing = append(missing, name)
			return masked
		})
	} else {
		at += ".url"
	}

	if wrong != "" {
		return component{}, fmt.Errorf("%w: %s: %s", errRejected, b.at(at), wrong)
	}

	if server.OAuth.ClientSecret != "" {
		req.OAuth.ClientSecret = value(server.OAuth.ClientSecret)
	}

	if len(missing) > 0 && !existed {
		return component{}, fmt.Errorf("%w: %s: set the variable %s, so that the hub can store its value", errRejected, b.at(at), missing[0])
	}

	if p.next, err = serverLines(req); err != nil {
		return component{}, err
	}

	if existed {
		var former wire.MCPRequest
		if err := convert(stored, &former); err != nil {
			return component{}, err
		}

		if p.former, err = serverLines(former); err != nil {
			return component{}, err
		}
	}

	p.store = func(ctx context.Context) error {
		if existed {
			_, err := c.MCPs.Update(ctx, name, stored.Version, req)
			return err
		}

		_, err := c.MCPs.Create(ctx, req)
		return err
	}
	return p, nil
}

func mapped(secrets map[string]agent.Secret, value func(agent.Secret) string) map[string]string {
	if secrets == nil {
		return nil
	}

	values := map[string]string{}
	for name, secret := range secrets {
		values[name] = value(secret)
	}

	return values
}

// serverLines returns the settings of an MCP server, without the values of secrets.
func serverLines(req wire.MCPRequest) ([]string, error) {
	hide := func(values map[string]string) map[string]string {
		hidden := map[string]string{}
		for name := range values {
			hidden[name] = masked
		}

		return hidden
	}
	req.Env, req.Headers = hide(req.Env), hide(req.Headers)
	if req.OAuth.ClientSecret != "" {
		req.OAuth.ClientSecret = masked
	}

	req.URL, _, _ = strings.Cut(req.URL, "?")
	req.Title, req.Description, req.Enabled = "", "", nil
	var object map[string]any
	if err := convert(req, &object); err != nil {
		return nil, err
	}

	lines := flatten([]string{}, "", object)
	slices.Sort(lines)
	return lines, nil
}
