package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/catalog/archive"
	"github.com/seed93082962/agenthost/internal/skillzip"
)

const front = "---\nname: pdf\ndescription: Reads PDF files.\n---\nRun scripts/a.py\n"

// entry is a file of an archive, or a directory if its name ends with a slash.
type entry struct {
	name, content string
	mode          fs.FileMode
	kind          byte // of a tar
	link          string
}

func zipped(t testing.TB, entries ...entry) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o644)
		if strings.HasSuffix(e.name, "/") {
			h.SetMode(fs.ModeDir | 0o755)
			h.Method = zip.Store
		}
		f, err := w.CreateHeader(h)
		require.NoError(t, err)
		_, err = io.WriteString(f, e.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func tarred(t testing.TB, entries ...entry) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm() | 0o644), Size: int64(len(e.content)), Typeflag: e.kind, Linkname: e.link}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(e.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: h.Typeflag, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "x"}}
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

func normalize(t testing.TB, data []byte, file string) (archive.Skill, []byte, error) {
	t.Helper()
	dir := t.TempDir()
	var out bytes.Buffer
	skill, err := archive.Normalize(bytes.NewReader(data), int64(len(data)), file, dir, &out)
	left, readErr := os.ReadDir(dir)
	require.NoError(t, readErr)
	require.Empty(t, left, "temporary files")
	require.Equal(t, err == nil, slices.Contains(skill.Paths, "SKILL.md"))
	skill.Paths = nil // for comparisons
	return skill, out.Bytes(), err
}

// contents returns the names, modes and contents of a zip.
func contents(t testing.TB, data []byte) (all []string) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for _, f := range r.File {
		c, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(c)
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%s %v %s", f.Name, f.Mode(), text))
	}
	return all
}

func TestArchivesWithTheSameContentAreEqual(t *testing.T) {
	files := []entry{{name: "scripts/a.py", content: "#!", mode: 0o755}, {name: "SKILL.md", content: front}, {name: "é.txt", content: "e"}}
	want := []string{"SKILL.md -rw-r--r-- " + front, "scripts/a.py -rwxr-xr-x #!", "é.txt -rw-r--r-- e"}
	in := func(prefix string, more ...entry) []entry {
		for _, f := range files {
			f.name = prefix + f.name
			more = append(more, f)
		}
		return more
	}
	var first []byte
	for label, data := range map[string][]byte{
		"zip":              zipped(t, in("")...),
		"zip of a folder":  zipped(t, in("pdf/", entry{name: "pdf/"}, entry{name: "__MACOSX/pdf/._SKILL.md"}, entry{name: "pdf/.DS_Store"})...),
		"zip of Windows":   zipped(t, backslashes(in(`pdf/`, entry{name: `pdf/`}, entry{name: `pdf/scripts/`}))...),
		"tar":              tarred(t, in("")...),
		"tar with ./":      tarred(t, in("./", entry{name: "./"}, entry{name: "./scripts/"})...),
		"tar by git":       tarred(t, in("pdf-1.0/", entry{kind: tar.TypeXGlobalHeader}, entry{name: "pdf-1.0/"})...),
		"in another order": zipped(t, files[2], files[0], files[1]),
		"a repository": tarred(t, in("pdf-main/skills/pdf/", entry{kind: tar.TypeXGlobalHeader}, entry{name: "pdf-main/README.md"},
			entry{name: "pdf-main/AGENTS.md", kind: tar.TypeSymlink, link: "README.md"})...),
		"of a program":  zipped(t, in(".claude/skills/pdf/", entry{name: ".claude/"}, entry{name: "LICENSE"})...),
		"by macOS":      tarred(t, in("./pdf/", entry{name: "./._pdf"}, entry{name: "./pdf/._SKILL.md"}, entry{name: "./pdf/scripts/._a.py"})...),
		"other letters": zipped(t, files[0], entry{name: "Skill.MD", content: front}, files[2]),
	} {
		skill, out, err := normalize(t, data, "other.zip")
		require.NoError(t, err, label)
		require.Equal(t, archive.Skill{Name: "pdf", Description: "Reads PDF files."}, skill, label)
		require.Equal(t, want, contents(t, out), label)
		if first == nil {
			first = out
		}
		require.Equal(t, first, out, label)
	}
	skill, out, err := normalize(t, first, "")
	require.NoError(t, err)
	require.Equal(t, "pdf", skill.Name)
	require.Equal(t, first, out)
}

// backslashes returns entries with the separators of Windows in their names.
func backslashes(entries []entry) []entry {
	for i := range entries {
		entries[i].name = strings.ReplaceAll(entries[i].name, "/", `\`)
	}
	return entries
}

// A skill may have others below it, which the runtime finds in its folder.
func TestASkillBelowASkill(t *testing.T) {
	below := entry{name: "pdf/forms/SKILL.md", content: "---\nname: forms\n---\n"}
	top := entry{name: "pdf/SKILL.md", content: front}
	for _, data := range [][]byte{zipped(t, below, top), tarred(t, top, below)} {
		skill, out, err := normalize(t, data, "other.zip")
		require.NoError(t, err)
		require.Equal(t, "pdf", skill.Name)
		require.Equal(t, []string{"SKILL.md -rw-r--r-- " + front, "forms/SKILL.md -rw-r--r-- " + below.content}, contents(t, out))
	}
}

func TestFrontMatter(t *testing.T) {
	for label, row := range map[string]struct {
		front string
		want  archive.Skill
	}{
		"folded": {"name: pdf-tools\ndescription: >-\n  Reads PDF files.\n  Use it for .pdf.\nlicense: Complete terms in LICENSE.txt\n",
			archive.Skill{Name: "pdf-tools", Description: "Reads PDF files. Use it for .pdf."}},
		"literal": {"name: \"pdf\"\ndescription: |\n  Reads:\n  - PDF\nallowed-tools:\n  - Read\n  - Bash(git *)\n",
			archive.Skill{Name: "pdf", Description: "Reads:\n- PDF"}},
		"metadata": {"name: pdf\ndescription: 'x'\nallowed-tools: Read, Grep\nmetadata:\n  name: other\n  type: other\n  version: \"1.0\"\n  tags: [a, b]\n",
			archive.Skill{Name: "pdf", Description: "x"}},
		"type":      {"name: pdf\ntype: expert\n", archive.Skill{Name: "pdf", Type: "expert"}},
		"no YAML":   {"name: pdf\ndescription: Use this: when\n", archive.Skill{Name: "pdf", Description: "Use this: when"}},
		"no name":   {"description: x\n", archive.Skill{Name: "folder", Description: "x"}},
		"type list": {"name: pdf\ntype: [a]\n", archive.Skill{Name: "pdf"}},
	} {
		skill, _, err := normalize(t, zipped(t, entry{name: "folder/SKILL.md", content: "---\n" + row.front + "---\nbody"}), "a.zip")
		require.NoError(t, err, label)
		require.Equal(t, row.want, skill, label)
	}
	skill, _, err := normalize(t, zipped(t, entry{name: "SKILL.md", content: "# No front matter"}), "my-skill.tar.gz")
	require.NoError(t, err)
	require.Equal(t, "my-skill", skill.Name)
	skill, out, err := normalize(t, []byte("\xef\xbb\xbf"+front), "SKILL.md")
	require.NoError(t, err)
	require.Equal(t, "pdf", skill.Name)
	require.Len(t, contents(t, out), 1)
}

func TestUploadsThatAreRejected(t *testing.T) {
	skill := entry{name: "SKILL.md", content: front}
	both := func(e ...entry) [][]byte {
		return [][]byte{zipped(t, append(e, skill)...), tarred(t, append(e, skill)...)}
	}
	many := make([]entry, 2001)
	for i := range many {
		many[i].name = fmt.Sprint(i)
	}
	broken := func(change func(data []byte)) [][]byte {
		data := zipped(t, skill, entry{name: "data", content: strings.Repeat("data", 100)})
		change(data)
		return [][]byte{data}
	}
	bomb := strings.Repeat("\x00", 3<<20)
	for want, uploads := range map[string][][]byte{
		`entry "../a" is outside of the archive`:                     both(entry{name: "../a"}),
		`entry "a/../../b" is outside`:                               both(entry{name: "a/../../b"}),
		`entry "/etc/passwd" has an absolute path`:                   both(entry{name: "/etc/passwd"}),
		`entry "C:/x" has an absolute path`:                          both(entry{name: "C:/x"}),
		`entry "a\\b" has a backslash`:                               {tarred(t, skill, entry{name: `a\b`})},
		`entry "../../a" is outside of the archive`:                  {zipped(t, skill, entry{name: `..\..\a`})},
		`entry "c:/a" has an absolute path`:                          {zipped(t, skill, entry{name: `c:\a`})},
		`entry "//host/a" has an absolute path`:                      {zipped(t, skill, entry{name: `\\host\a`})},
		`entry "a/b" exists twice`:                                   {zipped(t, skill, entry{name: "a/b"}, entry{name: `a\b`})},
		`entry "a//b" has an empty segment`:                          both(entry{name: "a//b"}),
		`entry "a/./b" has an empty segment`:                         both(entry{name: "a/./b"}),
		`entry "a\nb" has control characters`:                        both(entry{name: "a\nb"}),
		`entry "a\u202eb" has control characters`:                    both(entry{name: "a\u202eb"}),
		`has a name of more than 255 bytes`:                          both(entry{name: strings.Repeat("a", 256)}),
		`is in more than 31 directories`:                             both(entry{name: strings.Repeat("a/", 32) + "b"}),
		`paths of the archive have more than 262144 bytes`:           both(numbered(1999, "%04d"+strings.Repeat("a", 128))...),
		`more than 2000 directories`:                                 both(numbered(1999, "%04d/b/c")...),
		`has a path of more than 512 bytes`:                          both(entry{name: strings.Repeat("a/", 256) + "b"}),
		`entry "a" exists twice`:                                     both(entry{name: "a"}, entry{name: "a"}),
		`entry "A" has the same name as "a" on some systems`:         both(entry{name: "a"}, entry{name: "A"}),
		"entry \"e\u0301\" has the same name as \"é\"":               both(entry{name: "é"}, entry{name: "e\u0301"}),
		`entry "B/y" has the same name as "b" on some`:               both(entry{name: "b/x"}, entry{name: "B/y"}),
		`entry "c" exists twice`:                                     both(entry{name: "c"}, entry{name: "c/d"}),
		`more than 2000 entries`:                                     both(many...),
		`entry "bomb" makes the content larger than `:                both(entry{name: "bomb", content: bomb}),
		`has several skills, such as a, b: upload the folder of one`: {zipped(t, entry{name: "a/SKILL.md", content: front}, entry{name: "b/SKILL.md", content: front})},
		`has several skills, such as a/b, .claude/skills/x: `:        {tarred(t, entry{name: ".claude/skills/x/SKILL.md", content: front}, entry{name: "a/b/SKILL.md", content: front})},
		`the archive has no SKILL.md`: {zipped(t), zipped(t, entry{name: "README.md"}), zipped(t, entry{name: "SKILL.md", mode: fs.ModeSymlink}),
			zipped(t, entry{name: "\u017fKILL.md", content: front}), tarred(t, entry{name: "pdf/S\u212aILL.md", content: front})},
		`has the name "PDF Tools" in its front matter`:      {[]byte("---\nname: PDF Tools\n---\n")},
		`has the name "" in its front matter`:               {[]byte("# A skill without front matter")},
		`SKILL.md" is larger than 1048576 bytes`:            {[]byte(front + strings.Repeat("a", 1<<20)), zipped(t, entry{name: "SKILL.md", content: front + strings.Repeat("ab", 1<<19)})},
		`the file is not a .zip, a .tar.gz or a SKILL.md`:   {nil, {1, 2, 3}, []byte("a\x00b"), []byte("Rar!\x1a\x07\x01\x00\xff"), []byte("\xff\xfe")},
		`the file is not a .zip: `:                          {[]byte("PK\x03\x04"), zipped(t, skill)[:100]},
		`unexpected EOF`:                                    {{0x1f, 0x8b}, tarred(t, skill)[:100], tarred(t, skill)[:len(tarred(t, skill))-4]},
		`entry "link" is a link`:                            {zipped(t, skill, entry{name: "link", mode: fs.ModeSymlink}), tarred(t, skill, entry{name: "link", kind: tar.TypeSymlink, link: "/etc"}), tarred(t, skill, entry{name: "link", kind: tar.TypeLink, link: "x"})},
		`entry "dev" is not a regular file`:                 {zipped(t, skill, entry{name: "dev", mode: fs.ModeDevice}), zipped(t, skill, entry{name: "dev", mode: fs.ModeNamedPipe}), tarred(t, entry{name: "dev", kind: tar.TypeChar}), tarred(t, entry{name: "dev", kind: tar.TypeFifo})},
		`is encrypted`:                                      broken(func(d []byte) { d[bytes.LastIndex(d, []byte("PK\x01\x02"))+8] |= 1 }),
		`entry "data" cannot be read: zip: checksum error`:  broken(func(d []byte) { binary.LittleEndian.PutUint32(d[bytes.LastIndex(d, []byte("PK\x01\x02"))+16:], 7) }),
		`entry "SKILL.md" cannot be read: zip: unsupported`: broken(func(d []byte) { method(d, 12) }),
		`the file is larger than 20 MiB`:                    {make([]byte, skillzip.MaxPacked+1)},
		`the archive has more than 2000 entries`:            {bytes.Repeat([]byte("PK\x01\x02"), 30_000)},
		"entry \"a\\xff\" has a name that is not UTF-8":     both(entry{name: "a\xff"})[:1],
	} {
		for _, data := range uploads {
			_, _, err := normalize(t, data, "")
			require.ErrorContains(t, err, want)
			_, ok := errors.AsType[*archive.Error](err)
			require.True(t, ok)
			require.Less(t, len(err.Error()), 600)
		}
	}
}

// Programs differ in whether they read the header before a content or that in the directory. The
// zip that is written has one of both.
func TestHeadersBeforeTheContentHaveNoEffect(t *testing.T) {
	data := zipped(t, entry{name: "SKILL.md", content: front}, entry{name: "data", content: "text"})
	_, want, err := normalize(t, data, "")
	require.NoError(t, err)
	for name, change := range map[string]func(header []byte){
		"name":     func(h []byte) { h[30] = 'D' },
		"checksum": func(h []byte) { h[14]++ },
		"size":     func(h []byte) { h[22]++ },
		"flags":    func(h []byte) { h[6] |= 1 },
	} {
		changed := bytes.Clone(data)
		change(changed[bytes.Index(changed, []byte("data"))-30:])
		_, out, err := normalize(t, changed, "")
		require.NoError(t, err, name)
		require.Equal(t, want, out, name)
	}
}

// numbered returns files that are named after their number.
func numbered(n int, format string) []entry {
	all := make([]entry, n)
	for i := range all {
		all[i].name = fmt.Sprintf(format, i)
	}
	return all
}

// method changes the compression of all entries.
func method(d []byte, value byte) {
	for i := range d[:len(d)-12] {
		switch string(d[i : i+4]) {
		case "PK\x03\x04":
			d[i+8] = value
		case "PK\x01\x02":
			d[i+10] = value
		}
	}
}

func TestFailureToWriteIsNotAnInvalidUpload(t *testing.T) {
	data := zipped(t, entry{name: "SKILL.md", content: front})
	_, err := archive.Normalize(bytes.NewReader(data), int64(len(data)), "", "/nowhere", io.Discard)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, new(archive.Error))
}

func FuzzNormalize(f *testing.F) {
	skill := entry{name: "pdf/SKILL.md", content: front}
	f.Add(zipped(f, skill, entry{name: "pdf/a", content: "b"}))
	f.Add(tarred(f, entry{name: "./"}, skill))
	f.Add([]byte(front))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		skill, err := archive.Normalize(bytes.NewReader(data), int64(len(data)), "", dir, &out)
		if err != nil {
			_, ok := errors.AsType[*archive.Error](err)
			require.True(t, ok, "%v", err)
			return
		}
		var again bytes.Buffer
		same, err := archive.Normalize(bytes.NewReader(out.Bytes()), int64(out.Len()), "", dir, &again)
		require.NoError(t, err)
		if same.Name != "" {
			require.Equal(t, skill.Description, same.Description)
		}
	})
}

// A name that cannot be that of a skill is replaced by the name of the folder or of the archive.
func TestNamesThatCannotBeUsed(t *testing.T) {
	for _, name := range []string{"PDF Tools", "team/pdf", "PDF 工具", ""} {
		document := entry{name: "SKILL.md", content: "---\nname: " + name + "\ndescription: d\n---\n"}
		folder := document
		folder.name = "repo/skills/pdf/SKILL.md"
		for _, data := range [][]byte{zipped(t, folder), tarred(t, folder), zipped(t, document)} {
			skill, _, err := normalize(t, data, "pdf.zip")
			require.NoError(t, err)
			require.Equal(t, archive.Skill{Name: "pdf", Description: "d"}, skill)
		}
	}
}
