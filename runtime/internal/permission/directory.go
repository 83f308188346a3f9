package permission

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/internal/leaf/longpath"
)

// directory is the working directory.
type directory struct {
	resolve   func(string) (string, error)
	cwd       string   // clean, with "/"; "" if it is not known
	protected []string // as target.text
	links     *links
}

// target is a path from a tool's input.
type target struct {
	unknown bool   // the input cannot be decoded
	long    bool   // the path is longer than a path may be, and nothing else is set
	given   string // the clean path of a file in the input
	text    string // the path as written: relative to the working directory, or absolute if outside
	real    string // where the path leads, in the same form
	inText  bool   // text is in the working directory
	inReal  bool   // real is in the working directory
}

func newDirectory(cfg Config) directory {
	d := directory{resolve: cfg.Resolve, links: &links{turn: make(chan struct{}, 1)}}
	if cfg.CWD != "" {
		d.cwd = path.Clean(filepath.ToSlash(cfg.CWD))
	}

	for _, p := range append([]string{cfg.AgentHome}, cfg.Protected...) {
		if p != "" {
			d.protected = append(d.protected, d.relative(p))
		}
	}

	return d
}

// outside reports whether a clean path leaves the directory that it is relative to.
func outside(p string) bool {
	return p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/")
}

// relative returns a path relative to the working directory, or absolute if it is outside. Links
// are not followed.
func (d *directory) relative(p string) string {
	p = filepath.ToSlash(p)
	if d.cwd == "" {
		return path.Clean(p)
	}

	if !strings.HasPrefix(p, "/") {
		p = d.cwd + "/" + p
	}

	p = path.Clean(p)
	if p == d.cwd {
		return "."
	}

	if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(d.cwd, "/")+"/"); ok {
		return rest
	}

	return p
}

func (d *directory) target(p string) target {
	if longpath.Check(p) != nil {
		return target{long: true}
	}

	t := target{text: d.relative(p)}
	t.inText = !outside(t.text)
	if d.resolve == nil {
		t.real, t.inReal = t.text, t.inText
		return t
	}

	if resolved, err := d.resolve(p); err == nil {
		t.real = path.Clean(resolved)
		t.inReal = !outside(t.real)
	} else if d.cwd != "" { // files of skills may be outside
		if resolved, err := filepath.EvalSymlinks(d.absolute(t.text)); err == nil {
			t.real = filepath.ToSlash(resolved)
		}
	}

	return t
}

// absolute returns the path of a file of the operating system.
func (d *directory) absolute(p string) string {
	if strings.HasPrefix(p, "/") {
		return filepath.FromSlash(p)
	}

	return filepath.Join(filepath.FromSlash(d.cwd), filepath.FromSlash(p))
}

// blocks reports whether a file in the working directory is a FIFO, a socket or a device, which may
// block its reader forever.
func (d *directory) blocks(p string) bool {
	if d.resolve == nil || d.cwd == "" {
		return false
	}

	const special = fs.ModeNamedPipe | fs.ModeSocket | fs.ModeDevice | fs.ModeIrregular
	info, err := os.Lstat(d.absolute(p))
	return err == nil && info.Mode()&special != 0
}
