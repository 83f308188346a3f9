// Command modproxy writes a module proxy in a directory, with the modules of go.work as their next
// release has them, and prints the tags of that release. Each tag is after those of the modules
// that its module requires. The go command reads the proxy with GOPROXY=file://DIRECTORY.
package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: modproxy DIRECTORY")
		os.Exit(2)
	}

	tags, err := write(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "modproxy:", err)
		os.Exit(1)
	}

	fmt.Println(strings.Join(tags, "\n"))
}

// module is a module of go.work.
type module struct {
	dir      string // relative to go.work, with slashes
	path     string
	mod      []byte
	requires []version // other modules of go.work
	replaces int
}

type version struct{ Path, Version string }

// tag returns the tag of a release of the module.
func (m *module) tag(release string) string { return path.Join(m.dir, release) }

// write writes the proxy and returns the tags.
func write(dir string) ([]string, error) {
	root, modules, err := read()
	if err != nil {
		return nil, err
	}

	release, err := next(modules)
	if err != nil {
		return nil, err
	}

	ordered, err := order(modules)
	if err != nil {
		return nil, err
	}

	files, err := tracked(root)
	if err != nil {
		return nil, err
	}

	var tags []string
	for _, m := range ordered {
		if err := m.publish(root, dir, release, files); err != nil {
			return nil, fmt.Errorf("publish %s: %w", m.path, err)
		}

		tags = append(tags, m.tag(release))
	}

	return tags, nil
}

// read returns the directory of go.work, and its modules.
func read() (string, []*module, error) {
	file, err := output("", "go", "env", "GOWORK")
	if err != nil {
		return "", nil, err
	}

	root := filepath.Dir(strings.TrimSpace(string(file)))
	var work struct{ Use []struct{ DiskPath string } }
	if err := decode(&work, root, "go", "work", "edit", "-json"); err != nil {
		return "", nil, err
	}

	var modules []*module
	for _, use := range work.Use {
		var parsed struct {
			Module  struct{ Path string }
			Require []version
			Replace []any
		}
		m := &module{dir: path.Clean(filepath.ToSlash(use.DiskPath))}
		name := filepath.Join(root, m.dir, "go.mod")
		if m.mod, err = os.ReadFile(name); err != nil {
			return "", nil, err
		}

		if err := decode(&parsed, root, "go", "mod", "edit", "-json", name); err != nil {
			return "", nil, err
		}

		m.path, m.requires, m.replaces = parsed.Module.Path, parsed.Require, len(parsed.Replace)
		modules = append(modules, m)
	}

	for _, m := range modules {
		m.requires = slices.DeleteFunc(m.requires, func(r version) bool { return find(modules, r.Path) == nil })
	}

	return root, modules, nil
}

func find(modules []*module, path string) *module {
	i := slices.IndexFunc(modules, func(m *module) bool { return m.path == path })
	if i < 0 {
		return nil
	}

	return modules[i]
}

// next returns the version that the modules require of each other.
func next(modules []*module) (string, error) {
	release := ""
	for _, m := range modules {
		for _, r := range m.requires {
			if release != "" && release != r.Version {
				return "", fmt.Errorf("%s requires %s %s, and another module %s", m.path, r.Path, r.Version, release)
			}

			release = r.Version
		}
	}

	return release, nil
}

// order sorts modules: each is after those that it requires.
func order(modules []*module) ([]*module, error) {
	var ordered []*module
	for len(ordered) < len(modules) {
		i := slices.IndexFunc(modules, func(m *module) bool {
			missing := func(r version) bool { return find(ordered, r.Path) == nil }
			return !slices.Contains(ordered, m) && !slices.ContainsFunc(m.requires, missing)
		})
		if i < 0 {
			return nil, errors.New("modules require each other in a circle")
		}

		ordered = append(ordered, modules[i])
	}

	return ordered, nil
}

// tracked returns the files of the repository, relative to its root.
func tracked(root string) ([]string, error) {
	text, err := output(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), err
}

// publish writes the files of the module for the go command: see
// https://go.dev/ref/mod#goproxy-protocol.
func (m *module) publish(root, dir, release string, files []string) error {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range files {
		rel, inside := strings.CutPrefix(name, strings.TrimPrefix(m.dir+"/", "./"))
		if !inside || m.nested(rel, files) {
			continue
		}

		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) { // it is deleted, and not yet in the index
			continue
		}

		if err != nil {
			return err
		}

		entry, err := w.Create(m.path + "@" + release + "/" + rel)
		if err != nil {
			return err
		}

		if _, err := entry.Write(content); err != nil {
			return err
		}
	}

	if err := w.Close(); err != nil {
		return err
	}

	versions := filepath.Join(dir, m.path, "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return err
	}

	info, err := json.Marshal(version{Version: release})
	if err != nil {
		return err
	}

	for name, content := range map[string][]byte{
		"list": []byte(release + "\n"), release + ".info": info, release + ".mod": m.mod, release + ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o644); err != nil {
			return err
		}
	}

	return nil
}

// nested reports whether a file is part of another module.
func (m *module) nested(rel string, files []string) bool {
	for parent := path.Dir(rel); parent != "."; parent = path.Dir(parent) {
		if slices.Contains(files, path.Join(m.dir, parent, "go.mod")) {
			return true
		}
	}

	return false
}

func decode(v any, dir, name string, args ...string) error {
	text, err := output(dir, name, args...)
	if err != nil {
		return err
	}

	return json.Unmarshal(text, v)
}

func output(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s %s: %w", name, strings.Join(args, " "), err)
	}

	return text, nil
}
