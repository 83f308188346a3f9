package filesafe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed93082962/agenthost/internal/leaf/longpath"
)

// maxLinks is the largest number of links in the resolution of one path, as on Linux.
const maxLinks = 40

// Resolve returns the path without links that name leads to, relative to the directory ("." for the
// directory itself). If the error is [fs.ErrNotExist], or [syscall.ENOTDIR] for a path through a
// file, the path is the one at which the file would be, or empty if it contains "..".
func (d *Dir) Resolve(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", pathError("resolve", name, err)
	}

	rel, err := d.locate(name)
	if err != nil {
		err = &fs.PathError{Op: "resolve", Path: name, Err: err}
	}

	return rel, err
}

func (d *Dir) locate(name string) (string, error) {
	return d.follow(d.start(d.path, name))
}

// follow resolves rest, starting at an absolute path without links. The path may lead outside,
// where only links are read, and must end inside. The result may be outdated when follow returns:
// it is only passed to os.Root. All errors outside are ErrOutside, so that nothing is revealed
// about files there.
func (d *Dir) follow(at, rest string) (string, error) {
	n := near{dir: d}
	defer n.close()
	for links := 0; rest != ""; {
		part, after, deeper := cut(rest)
		switch part {
		case "", ".":
			rest = after
			continue
		case "..":
			at, rest = filepath.Dir(at), after
			continue
		}

		next := filepath.Join(at, part)
		rel, inside := d.inside(next)
		if inside && longpath.Check(filepath.ToSlash(rel)) != nil {
			return "", syscall.ENAMETOOLONG
		}

		info, err := n.lstat(next)
		switch {
		case err != nil && !inside:
			return "", ErrOutside
		case errors.Is(err, fs.ErrNotExist):
			return wouldBe(rel, after), err
		case err != nil:
			return "", err
		case info.IsDir():
			at, rest = next, after
		case info.Mode()&fs.ModeSymlink == 0:
			if deeper && inside {
				return wouldBe(rel, after), syscall.ENOTDIR
			} else if deeper {
				return "", ErrOutside
			}

			at, rest = next, ""
		default:
			if links++; links > maxLinks {
				return "", errLoop
			}

			text, err := d.readlink(next)
			switch {
			case errors.Is(err, syscall.EINVAL): // it is no longer a link
				continue
			case err != nil && !inside:
				return "", ErrOutside
			case err != nil:
				return "", err
			}

			at, text = d.start(at, text)
			if rest = text; deeper {
				rest += "/" + after
			}
		}
	}

	rel, inside := d.inside(at)
	if !inside {
		return "", ErrOutside
	}

	return rel, nil
}

// start returns where the resolution of a path in the directory at starts, and the rest of the
// path. A path that begins with the path of d starts there, even if directories above it cannot be
// searched.
func (d *Dir) start(at, path string) (string, string) {
	const separator = string(filepath.Separator)
	if after, ok := strings.CutPrefix(path, d.path); ok && (after == "" || os.IsPathSeparator(after[0])) {
		return d.path, after
	}

	if volume := filepath.VolumeName(path); filepath.IsAbs(path) {
		return volume + separator, path[len(volume):]
	}

	if path != "" && os.IsPathSeparator(path[0]) { // Windows: the root of the same volume
		return filepath.VolumeName(at) + separator, path
	}

	return at, path
}

// wouldBe joins the path of a file that is missing or not a directory, and the elements after it.
// It returns "" if they contain "..".
func wouldBe(rel, after string) string {
	for after != "" {
		part, rest, _ := cut(after)
		if part == ".." {
			return ""
		}

		rel, after = filepath.Join(rel, part), rest
	}

	return rel
}

// cut splits a path after its first element. It reports whether a separator follows: then the
// element must be a directory.
func cut(path string) (string, string, bool) {
	for i := range len(path) {
		if os.IsPathSeparator(path[i]) {
			return path[:i], path[i+1:], true
		}
	}

	return path, "", false
}

// climbs reports whether a path contains the element "..".
func climbs(path string) bool {
	for path != "" {
		var part string
		if part, path, _ = cut(path); part == ".." {
			return true
		}
	}

	return false
}

// inside returns an absolute path as one relative to the directory, if it is inside.
func (d *Dir) inside(abs string) (string, bool) {
	if abs == d.path {
		return ".", true
	}

	rest, ok := strings.CutPrefix(abs, d.path)
	if !ok || rest == "" {
		return "", false
	}

	if os.IsPathSeparator(d.path[len(d.path)-1]) { // the root of the file system
		return rest, true
	}

	return rest[1:], os.IsPathSeparator(rest[0])
}

// near reads files from an open directory that is near to them. os.Root opens each directory of a
// path, so that the resolution of a path would otherwise take a time in the square of its names.
type near struct {
	dir  *Dir
	root *os.Root // nil for that of dir
	path string   // of root, relative to dir
}

// nearNames is how many names a path below an open directory has before one of them is opened.
const nearNames = 16

func (n *near) lstat(abs string) (fs.FileInfo, error) {
	rel, inside := n.dir.inside(abs)
	if !inside {
		return os.Lstat(abs) // outside, links are read to decide whether they lead inside
	}

	root, below := n.open(rel)
	info, err := root.Lstat(below)
	if err != nil {
		return nil, cause(err)
	}

	return info, nil
}

// open returns an open directory, and a path without links relative to it.
func (n *near) open(rel string) (*os.Root, string) {
	const separator = string(filepath.Separator)
	root, below := n.dir.root, rel
	if rest, ok := strings.CutPrefix(rel, n.path+separator); n.root != nil && ok {
		root, below = n.root, rest
	}

	if strings.Count(below, separator) < nearNames {
		return root, below
	}

	opened, err := root.OpenRoot(filepath.Dir(below))
	if err != nil {
		return root, below // whose error is more specific
	}

	n.close()
	n.root, n.path = opened, filepath.Dir(rel)
	return opened, filepath.Base(rel)
}

func (n *near) close() {
	if n.root != nil {
		_ = n.root.Close() // it was only read
	}

	n.root = nil
}

func (d *Dir) readlink(abs string) (string, error) {
	rel, inside := d.inside(abs)
	if !inside {
		return os.Readlink(abs)
	}

	text, err := d.root.Readlink(rel)
	if err != nil {
		return "", cause(err)
	}

	return text, nil
}
