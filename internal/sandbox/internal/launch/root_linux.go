package launch

import (
	"errors"
	"strconv"
	"syscall"
)

// mountRoot makes a file system in memory with c.Mounts the root of the mount namespace. Nothing
// else of the former root is reachable then, not even by name.
func (c *Config) mountRoot() error {
	defer syscall.Umask(syscall.Umask(0o022)) // the command may be of another user
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return wrap("separate the mounts", err)
	}

	if err := syscall.Mount("tmpfs", c.Root, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return wrap("mount the root", err)
	}

	if err := syscall.Chdir(c.Root); err != nil {
		return wrap("enter the root", err)
	}

	// All places are created before anything is mounted: in what is mounted, a command may have
	// created links that lead out of the new root.
	sources := make([]int, len(c.Mounts))
	for i, m := range c.Mounts {
		var err error
		if sources[i], err = m.place(m.Target[1:]); err != nil {
			return wrap("create "+m.Target, err)
		}
	}

	for i, m := range c.Mounts {
		mount := func() error { return m.mount(m.Target[1:], sources[i]) }
		if m.Kind == MountProcess && !c.First {
			mount = func() error { return c.first.start(m.Target[1:]) }
		}

		if err := mount(); err != nil {
			return wrap("mount "+m.Target, err)
		}
	}

	if err := syscall.PivotRoot(".", "."); err != nil { // stacks the former root on the new one
		return wrap("change the root", err)
	}

	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return wrap("unmount the former root", err)
	}

	if err := syscall.Chdir("/"); err != nil {
		return wrap("enter the root", err)
	}

	return wrap("protect the root", setAttributes("/", 0, mountReadOnly))
}

// noSource is the descriptor of a source that is not mounted.
const noSource = -1

// place creates target, in the new root, for m. It returns a descriptor of the source of m.
func (m Mount) place(target string) (int, error) {
	source := noSource
	if m.isAgain() {
		return noSource, nil
	}

	directory := m.Kind == MountTmpfs || m.Kind == MountProcess || m.Kind == MountNested
	var err error
	if !directory && m.Kind != MountLink {
		// A link that has replaced the file since links were resolved permits nothing.
		source, err = openWithoutLinks(m.Source, 0)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ELOOP) {
			return noSource, nil
		}

		if err != nil {
			return noSource, err
		}

		var info syscall.Stat_t
		if err := syscall.Fstat(source, &info); err != nil {
			return noSource, err
		}

		directory = info.Mode&syscall.S_IFMT == syscall.S_IFDIR
	}

	if err := makeParents(target); err != nil {
		return noSource, err
	}

	switch {
	case m.Kind == MountLink:
		return noSource, syscall.Symlink(m.Source, target)
	case directory:
		return source, makeDirectory(target)
	}

	return source, makeFile(target)
}

// mount mounts m at target, and closes the source.
func (m Mount) mount(target string, source int) error {
	switch m.Kind {
	case MountLink:
		return nil
	case MountTmpfs:
		return syscall.Mount("tmpfs", target, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777,size="+m.Source)
	case MountNested:
		return syscall.Mount("proc", target, "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	case MountProcess:
		return syscall.Mount("proc", target, "proc", processFlags, "")
	}

	if m.isAgain() {
		return m.mountAgain(target)
	}

	if source == noSource {
		return nil
	}

	defer func() { _ = syscall.Close(source) }()
	if err := syscall.Mount("/proc/self/fd/"+strconv.Itoa(source), target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}

	switch m.Kind {
	case MountRead:
		return setAttributes(target, atRecursive, mountReadOnly|mountNoSetuid|mountNoDevices)
	case MountWrite:
		return setAttributes(target, atRecursive, mountNoSetuid|mountNoDevices)
	case MountDevice:
		// Devices can be written to on a read-only mount. Their modes, which Landlock does not
		// protect from a command of root, cannot be changed.
		return setAttributes(target, 0, mountReadOnly|mountNoSetuid|mountNoExecute)
	}

	return errors.New("unknown kind " + m.Kind)
}

// processFlags are those of the mount of the processes. A process of root may change the settings
// of the kernel below /proc/sys without a capability.
const processFlags = syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC

// isAgain reports whether m changes what is mounted already.
func (m Mount) isAgain() bool {
	return m.Kind == MountProtect || m.Kind == MountKeep || m.Kind == MountHide
}

// mountAgain mounts what is at target on itself, a link too, or hides it. A name in a directory
// that a command has replaced with a link since it was found is skipped.
func (m Mount) mountAgain(target string) error {
	at, err := openWithoutLinks(target, syscall.O_NOFOLLOW)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}

	if err != nil {
		return err
	}

	defer func() { _ = syscall.Close(at) }()
	source := at
	if m.Kind == MountHide {
		if source, err = openWithoutLinks("dev/null", 0); err != nil {
			return err
		}

		defer func() { _ = syscall.Close(source) }()
	}

	tree, err := cloneTree(source)
	if err != nil {
		return err
	}

	defer func() { _ = syscall.Close(tree) }()
	set, remove := uint64(mountReadOnly), uint64(0)
	if m.Kind == MountKeep {
		set, remove = remove, set
	}

	if err := changeAttributes(tree, "", atEmptyPath|atRecursive, set, remove); err != nil {
		return err
	}

	err = attachTree(tree, at)
	var info syscall.Stat_t
	if syscall.Fstat(at, &info) == nil && info.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		return nil // not each kernel can mount on a link, which can be replaced then
	}

	return err
}

func makeParents(path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			if err := makeDirectory(path[:i]); err != nil {
				return err
			}
		}
	}

	return nil
}

func makeDirectory(path string) error {
	if err := syscall.Mkdir(path, 0o755); !errors.Is(err, syscall.EEXIST) {
		return err
	}

	return nil
}

func makeFile(path string) error {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o644)
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}

	if err != nil {
		return err
	}

	return syscall.Close(fd)
}
