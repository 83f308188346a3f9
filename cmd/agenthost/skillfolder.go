package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/skillzip"
)

// skillFolders returns the folders with a SKILL.md at or below a path that are not below another
// one, or the path if there is none.
func skillFolders(root string) ([]string, error) {
	var folders []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case path != root && isForeign(entry.Name()):
			return fs.SkipDir
		}

		names, err := os.ReadDir(path)
		if slices.ContainsFunc(names, func(e fs.DirEntry) bool { return strings.EqualFold(e.Name(), skillFile) }) {
			folders = append(folders, path)
			return fs.SkipDir
		}

		return err
	})
	if len(folders) == 0 {
		folders = []string{root}
	}

	return folders, err
}

// isForeign reports whether a directory is not a part of a skill.
func isForeign(name string) bool { return name == ".git" || name == "node_modules" }

// packSkill returns a zip archive of a directory, below its name, and that name. A link to a file
// or a directory in it is packed as what it leads to.
func packSkill(dir string) ([]byte, string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}

	defer func() { _ = root.Close() }()
	var out bytes.Buffer
	p := packer{root: root, archive: zip.NewWriter(&out)}
	if err := p.add("."); err != nil {
		return nil, "", err
	}

	if err := p.archive.Close(); err != nil {
		return nil, "", err
	}

	if out.Len() > maxFile {
		return nil, "", fmt.Errorf("the archive has more than %d bytes", maxFile)
	}

	return out.Bytes(), filepath.Base(dir), nil
}

// packer writes the files of a directory into an archive.
type packer struct {
	root    *os.Root
	archive *zip.Writer
	entries int
	bytes   int64
}

// add adds a file, or the files of a directory. Links that lead in a circle exceed the limits.
func (p *packer) add(name string) error {
	info, err := p.root.Stat(name)
	if err != nil {
		return err
	}

	p.entries++
	switch {
	case p.entries > skillzip.MaxEntries, strings.Count(name, "/") >= skillzip.MaxDepth:
		return fmt.Errorf("it has more than %d files or %d levels", skillzip.MaxEntries, skillzip.MaxDepth)
	case info.Mode().IsRegular():
		return p.addFile(name, info)
	case !info.IsDir():
		return fmt.Errorf("%s is not a regular file", name)
	}

	entries, err := fs.ReadDir(p.root.FS(), name)
	if err != nil {
		return err
	}

	for _, entry := range entries {
		file := path.Join(name, entry.Name())
		if isForeign(entry.Name()) || skillzip.IsForeign(file) {
			continue
		}

		if err := p.add(file); err != nil {
			return err
		}
	}

	return nil
}

func (p *packer) addFile(name string, info fs.FileInfo) error {
	if p.bytes += info.Size(); p.bytes > skillzip.MaxUnpacked {
		return fmt.Errorf("its files have more than %d bytes", skillzip.MaxUnpacked)
	}

	header, err := zip.FileInfoHeader(info)
	if err != nil {
		return err
	}

	header.Name, header.Method = name, zip.Deflate
	to, err := p.archive.CreateHeader(header)
	if err != nil {
		return err
	}

	from, err := p.root.Open(name)
	if err != nil {
		return err
	}

	_, err = io.Copy(to, io.LimitReader(from, info.Size()))
	return errors.Join(err, from.Close())
}
