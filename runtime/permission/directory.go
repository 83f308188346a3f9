package permission

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// directory is the working directory, as far as it takes part in decisions.
type directory struct {
	resolve func(string) (string, error)
	cwd     string // clean and with "/", or ""
	home    string // of the agent, relative to cwd, or ""
}

// target is a path from a tool's input, twice: as it is written, and where it leads.
type target struct {
	unclear bool   // the input cannot be read
	text    string // relative to the working directory, if it is in there, else absolute if that is known
	real    string // relative to the working directory
	inText  bool   // text is in the working directory
	inReal  bool   // real is known, and so in the working directory
}

func newDirectory(cfg Config) directory {
	d := directory{resolve: cfg.Resolve}
	if cfg.CWD != "" {
		d.cwd = path.Clean(filepath.ToSlash(cfg.CWD))
	}
	if cfg.AgentHome != "" {
		if home := d.relative(cfg.AgentHome); !outside(home) {
			d.home = home
		}
	}
	return d
}

// outside says of a clean path whether it leaves the directory that it is relative to.
func outside(p string) bool {
	return p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/")
}

// relative makes a path relative to the working directory, if it is in there, by its text.
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
	t := target{text: d.relative(p)}
	t.inText = !outside(t.text)
	if d.resolve == nil {
		t.real, t.inReal = t.text, t.inText
		return t
	}
	if led, err := d.resolve(p); err == nil {
		t.real = path.Clean(led)
		t.inReal = !outside(t.real)
	}
	return t
}

// blocks says whether a place in the working directory is a FIFO, a socket or a device: who opens one may wait for ever.
func (d *directory) blocks(p string) bool {
	if d.resolve == nil || d.cwd == "" {
		return false
	}
	const special = fs.ModeNamedPipe | fs.ModeSocket | fs.ModeDevice | fs.ModeIrregular
	info, err := os.Lstat(filepath.Join(filepath.FromSlash(d.cwd), filepath.FromSlash(p)))
	return err == nil && info.Mode()&special != 0
}

// mayEdit says whether a file is one that acceptEdits lets change: in the working directory, and none that decides what
// the agent or git runs.
func (d *directory) mayEdit(t *target) bool {
	return !t.unclear && t.inReal && !d.guarded(t.real) && (!t.inText || !d.guarded(t.text))
}

func (d *directory) guarded(p string) bool {
	name, rest, more := "", p, true
	for more {
		if name, rest, more = strings.Cut(rest, "/"); strings.EqualFold(name, ".git") {
			return true
		}
	}
	if strings.EqualFold(name, "HEAD") { // with it a folder becomes a repository, whose config names commands to run
		return true
	}
	return d.home != "" && (below(d.home, p) || d.leadsAbove(d.home, p)) || d.leadsAbove(".git", p)
}

// leadsAbove says whether a path is in the directory that another one leads to.
func (d *directory) leadsAbove(dir, p string) bool {
	if d.resolve == nil {
		return false
	}
	led, err := d.resolve(dir)
	return err == nil && below(path.Clean(led), p)
}

// below says whether a path is dir or in it, in any letter case: some file systems do not tell them apart.
func below(dir, p string) bool {
	if dir == "." {
		return true
	}
	return len(p) >= len(dir) && strings.EqualFold(p[:len(dir)], dir) && (len(p) == len(dir) || p[len(dir)] == '/')
}
