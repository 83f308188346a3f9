package filesafe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links one path may go through, as on Linux.
const maxLinks = 40

// Resolve answers where name leads, as a path relative to the directory that has no links in it ("." for the directory).
// When the error is [fs.ErrNotExist] the path says where the file would be made, or is empty if it could not be.
func (d *Dir) Resolve(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", fault("resolve", name, fs.ErrInvalid)
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

// follow goes from at, an absolute path free of links, along rest. It may pass outside, where it reads links and nothing
// else, and must end inside. What it finds may have changed when it returns: only os.Root is ever given the result.
// All errors met outside are ErrOutside, so that nothing is told about what is there.
func (d *Dir) follow(at, rest string) (string, error) {
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
		info, err := d.lstat(next)
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
				return "", syscall.ENOTDIR
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
			case errors.Is(err, syscall.EINVAL): // no link any more: look again
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

// start says from where a path is followed that stands in the directory at. One that begins with the path of the
// directory itself starts there, also if what is above it may not be searched.
func (d *Dir) start(at, path string) (from, rest string) {
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

// wouldBe joins the path of something missing to what follows it. Nothing follows it by "..".
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

// cut takes the first element off a path. deeper says that a separator comes after it, so that it must be a directory.
func cut(path string) (part, after string, deeper bool) {
	for i := range len(path) {
		if os.IsPathSeparator(path[i]) {
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

// climbs says whether a path has ".." in it, as a whole element.
func climbs(path string) bool {
	for path != "" {
		var part string
		if part, path, _ = cut(path); part == ".." {
			return true
		}
	}
	return false
}

// inside answers the path relative to the directory of an absolute one.
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

func (d *Dir) lstat(abs string) (fs.FileInfo, error) {
	rel, inside := d.inside(abs)
	if !inside {
		return os.Lstat(abs) //nolint:gosec // outside, links are looked at to see whether they lead in
	}
	info, err := d.root.Lstat(rel)
	if err != nil {
		return nil, cause(err)
	}
	return info, nil
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
