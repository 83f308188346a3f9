package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// systemPaths are readable in each sandbox. Of /etc, only files without secrets are: a command of
// root could read all of it.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/run/current-system",
	"/etc/alternatives", "/etc/bash.bashrc", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
	"/etc/debian_version", "/etc/environment", "/etc/fonts", "/etc/gai.conf", "/etc/gitconfig", "/etc/group", "/etc/host.conf", "/etc/hostname",
	"/etc/hosts", "/etc/inputrc", "/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d", "/etc/localtime", "/etc/locale.alias", "/etc/magic", "/etc/mime.types", "/etc/nsswitch.conf",
	"/etc/os-release", "/etc/passwd", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/profile", "/etc/profile.d", "/etc/protocols", "/etc/python3",
	"/etc/resolv.conf", "/etc/rpc", "/etc/services", "/etc/shells", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/terminfo",
	"/etc/timezone", "/etc/xdg",
}

// devices are the device files of each sandbox.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// kernelFiles are readable where /proc is that of the system.
var kernelFiles = []string{
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version", "/proc/filesystems", "/proc/loadavg",
	"/proc/sys/kernel", "/proc/sys/vm", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
}

// toolchains returns the directories of path and, for one called bin, its parent: compilers read
// their libraries there. A home directory and its parents are never included.
func toolchains(path, home string) []string {
	var result []string
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}

		dir = filepath.Clean(dir)
		if !contains(dir, home) {
			result = append(result, dir)
		}

		parent := filepath.Dir(dir)
		if slices.Contains([]string{"bin", "sbin", "shims"}, filepath.Base(dir)) && !contains(parent, home) && filepath.Base(parent) != ".local" {
			result = append(result, parent)
		}
	}

	return result
}

// contains reports whether path is dir or inside dir. Both are clean.
func contains(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// ownPaths are those of which a sandbox has its own, or none: the files of processes, devices and
// the kernel.
var ownPaths = []string{"/proc", "/dev", "/sys"}

// withoutRoot replaces "/" with what is in it, except for ownPaths.
func withoutRoot(paths []string) []string {
	var result []string
	for _, path := range paths {
		if filepath.Clean(path) == "/" {
			result = append(result, without([]string{"/"}, ownPaths)...)
		} else {
			result = append(result, path)
		}
	}

	return result
}

// resolve returns the existing paths without symbolic links, and the links that lead to them: name
// and target of each. The root is replaced with what is in it. A path with a link in writable is
// left out: a command may have created the link.
func resolve(paths, writable []string) ([]string, [][2]string) {
	var links [][2]string
	var targets []string
	for _, path := range withoutRoot(paths) {
		path = filepath.Clean(path)
		steps := maxSteps
		target, ok := follow(path, writable, &steps)
		if !ok {
			continue
		}

		if target != path {
			links = append(links, [2]string{path, target})
		}

		targets = append(targets, target)
	}

	return targets, links
}

// without returns the paths without what is hidden: instead of a directory with a hidden path, its
// other entries. A link that leads to what is hidden, or to a directory around it, is omitted.
// Paths inside hidden ones remain.
func without(paths, hidden []string) (visible []string) {
	if len(hidden) == 0 {
		return paths
	}

	targets := make([]string, len(hidden))
	for i, path := range hidden {
		targets[i] = filepath.Clean(path)
		if target, err := filepath.EvalSymlinks(path); err == nil {
			targets[i] = target
		}
	}

	around := func(path string) bool {
		return slices.ContainsFunc(targets, func(h string) bool { return contains(path, h) })
	}
	inside := func(path string) bool {
		return slices.ContainsFunc(targets, func(h string) bool { return contains(h, path) })
	}
	var add func(path string)
	add = func(path string) {
		target, err := filepath.EvalSymlinks(path)
		switch {
		case err != nil || !around(target):
			visible = append(visible, path) // one that does not exist is ignored later
			return
		case inside(target):
			return
		}

		entries, _ := os.ReadDir(target) // without an error, what it has is permitted
		for _, e := range entries {
			entry := filepath.Join(target, e.Name())
			if e.Type()&fs.ModeSymlink == 0 {
				if !inside(entry) {
					add(entry)
				}
			} else if leads, err := filepath.EvalSymlinks(entry); err == nil && !around(leads) && !inside(leads) {
				visible = append(visible, entry)
			}
		}
	}
	for _, path := range paths {
		add(path)
	}

	return visible
}

// follow returns an existing path without symbolic links, unless one of them is in writable. It
// takes the steps that it needs from left: each is one name, or 64 bytes of the path to it.
func follow(path string, writable []string, left *int) (string, bool) {
	at, names := "/", strings.Split(path, "/")
	for links := 0; len(names) > 0; {
		next := filepath.Join(at, names[0])
		names = names[1:]
		if *left -= 1 + len(next)/64; *left < 0 {
			return "", false
		}

		link, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}

		links++
		if links > maxLinks || slices.ContainsFunc(writable, func(dir string) bool { return contains(dir, at) }) {
			return "", false
		}

		if filepath.IsAbs(link) {
			at = "/"
		}

		names = append(strings.Split(link, "/"), names...)
	}

	_, err := os.Lstat(at)
	return at, err == nil
}

// maxLinks is the number of symbolic links in a path that the kernel follows.
const maxLinks = 40

// maxSteps is the number of steps of a path that a caller names.
const maxSteps = 1_000_000

// outermost returns the sorted paths without those that are inside another one.
func outermost(paths []string) []string {
	var result []string
	for _, path := range slices.Sorted(slices.Values(paths)) {
		if !slices.ContainsFunc(result, func(dir string) bool { return contains(dir, path) }) {
			result = append(result, path)
		}
	}

	return result
}
