package permission

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// directory is the working directory.
type directory struct {
	resolve   func(string) (string, error)
	cwd       string   // clean, with "/"; "" if it is not known
	protected []string // as target.text
	git       gitConfig
}

// target is a path from a tool's input.
type target struct {
	unknown bool   // the input cannot be decoded
	text    string // the path as written: relative to the working directory, or absolute if outside
	real    string // where the path leads, in the same form
	inText  bool   // text is in the working directory
	inReal  bool   // real is in the working directory
}

func newDirectory(cfg Config) directory {
	d := directory{resolve: cfg.Resolve, git: newGitConfig(cfg.GitEnv)}
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

// approvesWrite reports whether acceptEdits approves a write: the file is in the working directory,
// and does not decide what an agent, git or the runtime executes.
func (d *directory) approvesWrite(t *target) bool {
	return !t.unknown && t.inReal && !d.executes(t.real) && (!t.inText || t.text == t.real || !d.executes(t.text))
}

// executes reports whether a file in the working directory may decide what is executed.
func (d *directory) executes(p string) bool {
	parts := strings.Split(p, "/")
	for i, name := range parts {
		if strings.EqualFold(name, ".git") || strings.EqualFold(name, ".gitconfig") ||
			strings.EqualFold(name, ".config") && i+1 < len(parts) && strings.EqualFold(parts[i+1], "git") {
			return true
		}
	}
	if strings.EqualFold(parts[len(parts)-1], "HEAD") { // it makes its directory a git directory
		return true
	}
	for _, dir := range slices.Concat(d.protected, d.gitPaths(p)) {
		if !outside(dir) && within(dir, p) || d.leadsTo(dir, p) {
			return true
		}
	}
	for _, dir := range []string{".git", ".gitconfig", ".config/git"} {
		if d.leadsTo(dir, p) {
			return true
		}
	}
	return d.inGitDirectory(p)
}

// gitPaths returns, as target.text, what the configuration of git names in each worktree with the
// file: that of the working directory, and those below it. The files are read for each decision,
// because other programs change them while a runtime serves.
func (d *directory) gitPaths(p string) []string {
	if d.resolve == nil || d.cwd == "" {
		return nil
	}
	var paths []string
	cwd := d.absolute(".")
	for dir := d.absolute(path.Dir(p)); ; dir = filepath.Dir(dir) {
		repository, top := gitDirectory(dir), dir == filepath.Dir(dir)
		if repository != "" || top {
			for _, named := range d.git.paths(dir, repository) {
				paths = append(paths, d.relative(named))
			}
		}
		if top || repository != "" && len(dir) <= len(cwd) { // not below cwd
			return paths
		}
	}
}

// inGitDirectory reports whether a file is in a git directory that is not named .git: a bare
// repository, or one made with git init --separate-git-dir. Its config names commands that git
// runs.
func (d *directory) inGitDirectory(p string) bool {
	if d.resolve == nil || d.cwd == "" {
		return false
	}
	for dir := p; dir != "."; {
		dir = path.Dir(dir)
		if _, err := os.Lstat(d.absolute(dir + "/HEAD")); err == nil {
			return true
		}
		if to := gitFile(d.absolute(dir)); to != "" && d.leadsTo(to, p) {
			return true
		}
	}
	return false
}

// leadsTo reports whether a path is in the directory that another path leads to.
func (d *directory) leadsTo(dir, p string) bool {
	if d.resolve == nil {
		return false
	}
	resolved, err := d.resolve(dir)
	return err == nil && within(path.Clean(resolved), p)
}

// within reports whether a path is dir or in it. Letter case is ignored, as in some file systems.
func within(dir, p string) bool {
	if dir == "." {
		return true
	}
	return len(p) >= len(dir) && strings.EqualFold(p[:len(dir)], dir) && (len(p) == len(dir) || p[len(dir)] == '/')
}
