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
	for _, m := range c.Mounts {
		if err := m.apply(m.Target[1:]); err != nil {
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

// apply adds m to the new root, the working directory.
func (m Mount) apply(target string) error {
	if err := makeParents(target); err != nil {
		return err
	}
	switch m.Kind {
	case MountLink:
		return syscall.Symlink(m.Source, target)
	case MountTmpfs:
		if err := makeDirectory(target); err != nil {
			return err
		}
		return syscall.Mount("tmpfs", target, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777,size="+m.Source)
	case MountNested:
		if err := makeDirectory(target); err != nil {
			return err
		}
		return syscall.Mount("proc", target, "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	case MountProcess:
		if err := makeDirectory(target); err != nil {
			return err
		}
		// A process of root may change the settings of the kernel below /proc/sys without a capability.
		return syscall.Mount("proc", target, "proc", syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	}
	// A link that has replaced the file since links were resolved permits nothing.
	source, err := openWithoutLinks(m.Source)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(source) }()
	var info syscall.Stat_t
	if err := syscall.Fstat(source, &info); err != nil {
		return err
	}
	if info.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		if err := makeDirectory(target); err != nil {
			return err
		}
	} else if err := makeFile(target); err != nil {
		return err
	}
	if err := syscall.Mount("/proc/self/fd/"+strconv.Itoa(source), target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	switch m.Kind {
	case MountRead:
		return setAttributes(target, atRecursive, mountReadOnly|mountNoSetuid|mountNoDevices)
	case MountWrite:
		return setAttributes(target, atRecursive, mountNoSetuid|mountNoDevices)
	case MountDevice:
		return setAttributes(target, 0, mountNoSetuid|mountNoExecute)
	}
	return errors.New("unknown kind " + m.Kind)
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

// makeDirectory creates a directory of the new root. One that exists may be read-only.
func makeDirectory(path string) error {
	err := syscall.Mkdir(path, 0o755)
	if errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.EROFS) && exists(path) || errors.Is(err, syscall.EACCES) && exists(path) {
		return nil
	}
	return err
}

func makeFile(path string) error {
	if exists(path) {
		return nil
	}
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

func exists(path string) bool {
	var info syscall.Stat_t
	return syscall.Lstat(path, &info) == nil
}
