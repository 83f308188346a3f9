package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

// skills writes files below a home directory ("home/...") and a project ("work/..."), and scans
// both for skills. The project is the working directory of the tools.
func skills(t testing.TB, files map[string]string, change ...func(*builtin.Config)) box {
	t.Helper()
	return setup(t, func(c *builtin.Config) {
		top := filepath.Dir(c.Dir.Path())
		for name, content := range files {
			path := filepath.Join(top, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			if target, ok := strings.CutPrefix(content, "-> "); ok {
				require.NoError(t, os.Symlink(filepath.Join(top, target), path))
			} else {
				require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			}
		}
		scanner, err := skill.New(skill.Config{HomeDir: filepath.Join(top, "home"), CWD: c.Dir.Path()})
		require.NoError(t, err)
		c.Skills, err = scanner.Scan(t.Context(), []string{skill.User, skill.Project}, nil, nil)
		require.NoError(t, err)
		for _, f := range change {
			f(c)
		}
	})
}

const pdf = "---\nname: pdf\ndescription: Reads PDF forms.\n---\nRun scripts/fields.py first.\n"

func TestSkill(t *testing.T) {
	for name, row := range map[string]struct{ body, args, want string }{
		"without arguments":        {"Do it.\n", "", "Do it."},
		"arguments":                {"Do it.\n", "a.pdf", "Do it.\n\nARGUMENTS: a.pdf"},
		"a place for arguments":    {"Do $ARGUMENTS, then $ARGUMENTS.\n", "a $1", "Do a $1, then a $1."},
		"a place and no arguments": {"Do it to: $ARGUMENTS\n", "", "Do it to: "},
		"its directory":            {"Run ${CLAUDE_SKILL_DIR}/run.py $ARGUMENTS.\n", "${CLAUDE_SKILL_DIR}", "Run <dir>/run.py ${CLAUDE_SKILL_DIR}."},
		"lines before the text":    {"\n\nDo it.\n", "", "Do it."},
	} {
		t.Run(name, func(t *testing.T) {
			b := skills(t, map[string]string{"home/.agents/skills/do/SKILL.md": "---\nname: do\n---\n" + row.body})
			input := in{"skill": "do"}
			if row.args != "" {
				input["args"] = row.args
			}
			dir := filepath.Dir(b.dir) + "/home/.agents/skills/do"
			want := strings.ReplaceAll(row.want, "<dir>", dir)
			require.Equal(t, "Base directory for this skill: "+dir+"\n\n"+want, b.ok(t, "Skill", input))
		})
	}
}

func TestSkillRejects(t *testing.T) {
	b := skills(t, map[string]string{
		"home/.agents/skills/pdf/SKILL.md":   pdf,
		"work/.agents/skills/gone/SKILL.md":  "---\nname: gone\n---\n",
		"work/.agents/skills/large/SKILL.md": "---\nname: large\n---\n" + strings.Repeat("$ARGUMENTS", 50_000),
	})
	require.Equal(t, `there is no skill "word": the skills are gone, large, pdf`, b.fails(t, "Skill", in{"skill": "word"}))
	require.NoError(t, os.Remove(b.dir+"/.agents/skills/gone/SKILL.md"))
	require.Contains(t, b.fails(t, "Skill", in{"skill": "gone"}), "read skill gone: ")
	require.Equal(t, `the skill "large" is too large with these args`,
		b.fails(t, "Skill", in{"skill": "large", "args": strings.Repeat("x", 1000)}))
}

// Skill returns no file that a rule denies to Read, by its own path or through links.
func TestSkillFilesThatReadIsDenied(t *testing.T) {
	b := skills(t, map[string]string{
		"work/secrets/key":                    "---\nname: key\n---\nthe secret\n",
		"work/.agents/skills/linked/SKILL.md": "-> work/secrets/key",
		"work/.agents/skills/dir":             "-> work/secrets/folder",
		"work/secrets/folder/SKILL.md":        "---\nname: folder\n---\nthe secret\n",
		"work/again":                          "-> work/secrets/again",
		"work/secrets/again":                  "---\nname: again\n---\nthe secret\n",
		"work/.agents/skills/twice/SKILL.md":  "-> work/again",
		"work/.agents/skills/plain/SKILL.md":  "---\nname: plain\n---\nfine\n",
		"work/.agents/skills/denied/SKILL.md": "---\nname: denied\n---\nthe secret\n",
		"home/.agents/skills/user/SKILL.md":   "---\nname: user\n---\nfine\n",
		"work/secrets/other":                  "---\nname: other\n---\nthe secret\n",
		"home/.agents/skills/in/SKILL.md":     "-> work/secrets/other",
		"home/secrets/private":                "---\nname: private\n---\nthe secret\n",
		"home/.agents/skills/own/SKILL.md":    "-> home/secrets/private",
	}, func(c *builtin.Config) {
		c.DeniesRead = func(path string) bool {
			return strings.Contains(path, "/secrets/") || strings.HasSuffix(path, "/denied/SKILL.md")
		}
		for i := range c.Skills { // the file that a link leads to has another name
			c.Skills[i].Name = filepath.Base(c.Skills[i].Dir())
		}
	})
	for _, name := range []string{"linked", "dir", "twice", "denied", "in", "own"} {
		require.Equal(t, "read skill "+name+": a rule denies reading its file", b.fails(t, "Skill", in{"skill": name}))
	}
	for _, name := range []string{"plain", "user"} {
		require.Contains(t, b.ok(t, "Skill", in{"skill": name}), "fine")
	}
}

func TestSkillOutputIsBounded(t *testing.T) {
	b := skills(t, map[string]string{"home/.agents/skills/long/SKILL.md": "first\n" + strings.Repeat("日本語\n", 40_000) + "last\n"})
	output := b.cut(t, "Skill", in{"skill": "long"})
	require.LessOrEqual(t, len(output), 100_000)
	require.Greater(t, len(output), 99_900)
	require.Regexp(t, `^[^\n]*\n\nfirst\n(?:日本語\n)+日?本?\n\[\d+ bytes cut\]\n本?語?\n(?:日本語\n)+last$`, output)
}

func TestNoToolWithoutSkills(t *testing.T) {
	require.NotContains(t, setup(t).tools, "Skill")
	require.Contains(t, skills(t, map[string]string{"home/.agents/skills/pdf/SKILL.md": pdf}).tools, "Skill")
}

func TestReadOfSkillFiles(t *testing.T) {
	b := skills(t, map[string]string{
		"home/.agents/skills/pdf/SKILL.md":          pdf,
		"home/.agents/skills/pdf/scripts/fields.py": "print()\n",
		"home/.agents/skills/pdf/out":               "-> home/secret",
		"home/.agents/skills/other.md":              "no skill",
		"home/secret":                               "the secret",
		"home/.agents/skills/linked":                "-> elsewhere/linked",
		"elsewhere/linked/SKILL.md":                 "linked",
		"elsewhere/linked/f":                        "linked in\n",
		"elsewhere/f":                               "the secret",
		"work/.agents/skills/own/SKILL.md":          "own",
		"work/.agents/skills/own/f":                 "of the project\n",
	})
	top := filepath.Dir(b.dir)
	for path, want := range map[string]string{
		"home/.agents/skills/pdf/scripts/fields.py":                   "     1\tprint()\n",
		"home/.agents/skills/pdf/scripts/../../pdf/scripts/fields.py": "     1\tprint()\n",
		"home/.agents/skills/linked/f":                                "     1\tlinked in\n",
		"elsewhere/linked/f":                                          "     1\tlinked in\n",
		"work/.agents/skills/own/f":                                   "     1\tof the project\n",
	} {
		require.Equal(t, want, b.ok(t, "Read", in{"file_path": top + "/" + path}), path)
	}
	script := top + "/home/.agents/skills/pdf/scripts/fields.py"
	for name, input := range fileTools {
		if name != "Read" {
			require.Contains(t, b.fails(t, name, input(script)), "is outside the working directory", name)
		}
	}
	for _, path := range []string{"home/.agents/skills/pdf/out", "home/secret", "home/.agents/skills/other.md", "elsewhere/f",
		"home/.agents/skills/pdf/../../../secret", "home/.agents/skills/pdf-not", "home/.agents/skills"} {
		require.Contains(t, b.fails(t, "Read", in{"file_path": top + "/" + path}), "is outside the working directory", path)
	}
	missing := top + "/home/.agents/skills/pdf/missing"
	require.Contains(t, b.fails(t, "Read", in{"file_path": missing}), "missing does not exist")
	require.Contains(t, b.fails(t, "Read", in{"file_path": filepath.Dir(script)}), "is a directory")
	require.Contains(t, b.fails(t, "Read", in{"file_path": "../home/.agents/skills/pdf/SKILL.md"}), "is outside",
		"a relative path is one of the working directory")
}

// Read does not follow a skill directory that was replaced by a link.
func TestSkillDirectoryReplaced(t *testing.T) {
	b := skills(t, map[string]string{
		"home/.agents/skills/pdf/SKILL.md": pdf,
		"home/.agents/skills/linked":       "-> elsewhere/linked",
		"elsewhere/linked/SKILL.md":        "linked",
		"work/.agents/skills/own/SKILL.md": "own",
		"secrets/f":                        "the secret",
	})
	top := filepath.Dir(b.dir)
	for _, path := range []string{"home/.agents/skills/pdf", "home/.agents/skills/linked", "work/.agents/skills/own"} {
		path = filepath.Join(top, path)
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.Symlink(filepath.Join(top, "secrets"), path))
		require.Contains(t, b.fails(t, "Read", in{"file_path": filepath.Join(path, "f")}), "is outside the working directory")
	}
}
