package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
)

var skillColumns = []column[client.Skill]{
	{"name", func(s client.Skill) string { return s.Name }},
	{"type", func(s client.Skill) string { return s.Type }},
	{"status", func(s client.Skill) string { return s.Status }},
	{"size", func(s client.Skill) string { return strconv.FormatInt(s.Size, 10) }},
	{"updated", func(s client.Skill) string { return day(s.UpdatedAt) }},
	{"description", func(s client.Skill) string { return s.Description }},
}

func (a *app) skillsCommand() *cobra.Command {
	return group("skills", "List and upload skills", "  agenthost skills upload ./travel",
		a.command(action{
			use: "list", short: "List the skills", example: "  agenthost skills list",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				return printList(a, c.Skills.List(ctx, ""), skillColumns...)
			},
		}),
		a.command(action{
			use: "get SKILL", short: "Show a skill", example: "  agenthost skills get travel", args: []string{"SKILL"}, complete: skillNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				skill, err := c.Skills.Get(ctx, args[0])
				if err != nil {
					return err
				}
				return printOne(a, skill, skillColumns...)
			},
		}),
		a.uploadSkillCommand(),
		a.command(action{
			use: "download SKILL", short: "Print the archive of a skill", example: "  agenthost skills download travel > travel.zip", args: []string{"SKILL"}, complete: skillNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				file, err := c.Skills.Download(ctx, args[0], 0)
				if err != nil {
					return err
				}
				_, err = io.Copy(a.stdout, file)
				return errors.Join(err, file.Close())
			},
		}),
		a.command(action{
			use: "delete SKILL", short: "Delete a skill that no agent mounts", example: "  agenthost skills delete travel", args: []string{"SKILL"}, complete: skillNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Skills.Delete(ctx, args[0]); err != nil {
					return err
				}
				return a.result("The skill %s is deleted.", args[0])
			},
		}),
	)
}

func (a *app) uploadSkillCommand() *cobra.Command {
	var replace, kind string
	cmd := a.command(action{
		use: "upload PATH", short: "Upload a skill: a directory, an archive or a SKILL.md", args: []string{"PATH"},
		long:    "Uploads a directory with a SKILL.md, a .zip, a .tar.gz or a SKILL.md. With --replace, an existing skill gets the files.",
		example: "  agenthost skills upload ./travel\n  agenthost skills upload ./travel --replace travel",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			file, done, err := a.openSkill(args[0])
			if err != nil {
				return err
			}
			defer done()
			file.Type = kind
			var skill client.Skill
			if replace != "" {
				skill, err = c.Skills.Replace(ctx, replace, 0, file)
			} else {
				skill, err = c.Skills.Create(ctx, file)
			}
			if err != nil {
				return err
			}
			return printOne(a, skill, skillColumns...)
		},
	})
	cmd.ValidArgsFunction = nil // files
	cmd.Flags().StringVar(&replace, "replace", "", "`name` of the skill whose files are replaced")
	cmd.Flags().StringVar(&kind, "type", "", "expert or community")
	_ = cmd.RegisterFlagCompletionFunc("replace", a.completeFlag(skillNames))
	return cmd
}

// openSkill opens a file, or packs a directory.
func (a *app) openSkill(path string) (file client.Upload, done func(), err error) {
	info, err := os.Stat(path)
	if err != nil {
		return file, nil, err
	}
	if !info.IsDir() {
		return a.openUpload(path)
	}
	packed, name, err := packSkill(path)
	if err != nil {
		return file, nil, fmt.Errorf("pack %s: %w", path, err)
	}
	content := bytes.NewReader(packed)
	reader := &seekingProgress{progress: progress{Reader: content, app: a, name: path, size: content.Size()}, seeker: content}
	return client.Upload{FileName: name + ".zip", Content: reader}, func() {}, nil
}

// packSkill returns a zip archive of a directory, below its name. The same files have the same
// archive.
func packSkill(dir string) (packed []byte, name string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = root.Close() }()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	if err := archive.AddFS(root.FS()); err != nil {
		return nil, "", err
	}
	if err := archive.Close(); err != nil {
		return nil, "", err
	}
	if out.Len() > maxFile {
		return nil, "", fmt.Errorf("the archive has more than %d bytes", maxFile)
	}
	return out.Bytes(), filepath.Base(dir), nil
}
