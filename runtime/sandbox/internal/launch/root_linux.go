package launch

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// mountRoot makes a file system in memory with c.Mounts the root of the mount namespace. Nothing
// else of the former root is reachable then, not even by name.
func (c *Config) mountRoot() error {
	defer unix.Umask(unix.Umask(0o022)) // the command may be of another user
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return wrap("separate the mounts", err)
	}
	if err := unix.Mount("tmpfs", c.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return wrap("mount the root", err)
	}
	for _, m := range c.Mounts {
		if err := m.apply(c.Root + m.Target); err != nil {
			return wrap("mount "+m.Target, err)
		}
	}
	if err := unix.Chdir(c.Root); err != nil {
		return wrap("enter the root", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil { // stacks the former root on the new one
		return wrap("change the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return wrap("unmount the former root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return wrap("enter the root", err)
	}
	return wrap("protect the root", setAttributes("/", 0, unix.MOUNT_ATTR_RDONLY))
}

func (m Mount) apply(target string) error {
	if err := makeParents(target); err != nil {
		return err
	}
	switch m.Kind {
	case MountLink:
		return unix.Symlink(m.Source, target)
	case MountTmpfs:
		if err := makeDirectory(target); err != nil {
			return err
		}
		return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size="+m.Source)
	case MountNested:
		if err := makeDirectory(target); err != nil {
			return err
		}
		return unix.Mount("proc", target, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	case MountProcess:
		if err := makeDirectory(target); err != nil {
			return err
		}
		// A process of root may change the settings of the kernel below /proc/sys without a capability.
		return unix.Mount("proc", target, "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	var info unix.Stat_t
	if err := unix.Stat(m.Source, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := makeDirectory(target); err != nil {
			return err
		}
	} else if err := makeFile(target); err != nil {
		return err
	}
	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	switch m.Kind {
	case MountRead:
		return setAttributes(target, unix.AT_RECURSIVE, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	case MountWrite:
		return setAttributes(target, unix.AT_RECURSIVE, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	case MountDevice:
		return setAttributes(target, 0, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	}
	return errors.New("unknown kind " + m.Kind)
}

func setAttributes(path string, flags uint, attributes uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: attributes})
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
	err := unix.Mkdir(path, 0o755)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EROFS) && exists(path) || errors.Is(err, unix.EACCES) && exists(path) {
		return nil
	}
	return err
}

func makeFile(path string) error {
	if exists(path) {
		return nil
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func exists(path string) bool {
	var info unix.Stat_t
	return unix.Lstat(strings.TrimSuffix(path, "/"), &info) == nil
}
