package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func skillColumns(s wire.Skill) []field {
	return []field{
		{"name", s.Name},
		{"type", s.Type},
		{"status", s.Status},
		{"size", s.Size},
		{"updated", s.UpdatedAt},
		{"description", cmp.Or(s.DescriptionEN, s.Description)},
	}
}

var skillKind = noun{group: "skills", one: "skill", example: "travel", names: skillNames}

func (a *app) skillsCommand() *cobra.Command {
	return group("skills", "List and upload skills", "  agenthost skills upload ./travel",
		listCommand(a, skillKind, func(ctx context.Context, c *client.Client) iter.Seq2[wire.Skill, error] {
			return c.Skills.List(ctx, "")
		}, skillColumns),
		getCommand(a, skillKind, func(ctx context.Context, c *client.Client, name string) (wire.Skill, error) {
			return c.Skills.Get(ctx, name)
		}, skillColumns),
		a.uploadSkillCommand(),
		setTextsCommand(a, skillKind, func(ctx context.Context, c *client.Client, name string, texts wire.ToolUpdate) (wire.Skill, error) {
			return c.Skills.Update(ctx, name, 0, wire.SkillUpdate{Title: texts.Title, Description: texts.Description, DescriptionEN: texts.DescriptionEN})
		}, skillColumns),
		a.downloadCommand(skillKind, "Print the archive of a skill", "travel.zip", func(ctx context.Context, c *client.Client, name string) (*client.File, error) {
			return c.Skills.Download(ctx, name, 0)
		}),
		a.deleteCommand(skillKind, " that no agent mounts", func(ctx context.Context, c *client.Client, name string) (string, error) {
			return usersOf(ctx, c, func(agent wire.Agent) bool { return slices.Contains(agent.Skills, name) })
		}, func(ctx context.Context, c *client.Client, name string) error {
			return c.Skills.Delete(ctx, name)
		}),
	)
}

func (a *app) uploadSkillCommand() *cobra.Command {
	var replace, kind string
	cmd := a.command(action{
		use: "upload PATH", short: "Upload a skill: a directory, an archive or a SKILL.md", args: []string{"PATH"}, files: true,
		long: `Uploads a directory with a SKILL.md, a .zip, a .tar.gz or a SKILL.md. Of a repository, it uploads every folder with a
SKILL.md. With --replace, an existing skill gets the files.`,
		example: "  agenthost skills upload ./travel\n  agenthost skills upload ./travel --replace travel",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			paths, err := skillFolders(args[0])
			if err != nil {
				return err
			}

			if len(paths) == 1 {
				return a.uploadSkill(ctx, c, paths[0], replace, kind)
			}

			if replace != "" {
				return usage("%s has several skills, such as %s and %s: upload the folder of one", args[0], paths[0], paths[1])
			}

			var failed []error
			for _, path := range paths {
				if err := a.uploadSkill(ctx, c, path, "", kind); err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", path, err))
				}
			}

			return errors.Join(failed...)
		},
	})
	cmd.Flags().StringVar(&replace, "replace", "", "`name` of the skill whose files are replaced")
	cmd.Flags().StringVar(&kind, "type", "", "expert or community")
	_ = cmd.RegisterFlagCompletionFunc("replace", a.completeFlag(skillNames))
	return cmd
}

// uploadSkill uploads one skill, or replaces the files of the skill named replace, and prints it.
func (a *app) uploadSkill(ctx context.Context, c *client.Client, path, replace, kind string) error {
	file, done, err := a.openSkill(path)
	if err != nil {
		return err
	}

	defer done()
	file.Type = kind
	var skill wire.Skill
	if replace != "" {
		skill, err = c.Skills.Replace(ctx, replace, 0, file)
	} else {
		skill, err = c.Skills.Create(ctx, file)
	}

	if err != nil {
		return err
	}

	return a.printOne(skill, skillColumns(skill)...)
}

// openSkill opens a file, or packs a directory. The returned function closes the file.
func (a *app) openSkill(path string) (client.Upload, func(), error) {
	info, err := os.Stat(path)
	if err != nil {
		return client.Upload{}, nil, err
	}

	if !info.IsDir() {
		return a.openUpload(path)
	}

	packed, name, err := packSkill(path)
	if err != nil {
		return client.Upload{}, nil, fmt.Errorf("pack %s: %w", path, err)
	}

	return client.Upload{FileName: name + ".zip", Content: a.uploading(path, packed)}, func() {}, nil
}

// uploading returns a reader of content that prints the progress of its upload.
func (a *app) uploading(path string, content []byte) io.ReadSeeker {
	reader := bytes.NewReader(content)
	return &seekingProgress{progress: progress{Reader: reader, app: a, name: path, size: reader.Size()}, seeker: reader}
}
