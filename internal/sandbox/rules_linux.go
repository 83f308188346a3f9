package sandbox

import (
	"errors"
	"fmt"
	"os"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	accessRead = landlock.AccessFSExecute | landlock.AccessFSReadFile | landlock.AccessFSReadDir
	accessFile = landlock.AccessFSExecute | landlock.AccessFSReadFile | landlock.AccessFSWriteFile | landlock.AccessFSTruncate |
		landlock.AccessFSIoctlDev | landlock.AccessFSResolveUnix // what a rule of a file can have

	// Versions of the interface of Landlock, in which rights were added.
	abiRefer       = 2
	abiTruncate    = 3
	abiNetwork     = 4
	abiIoctl       = 5
	abiScope       = 6
	abiUDP         = 10
	abiResolveUnix = 11
)

// accessOf returns the rights to files that a kernel with the version abi can restrict.
func accessOf(abi int) uint64 {
	access := uint64(landlock.AccessFSMakeSym<<1 - 1)
	for version, right := range map[int]uint64{
		abiRefer: landlock.AccessFSRefer, abiTruncate: landlock.AccessFSTruncate,
		abiIoctl: landlock.AccessFSIoctlDev, abiResolveUnix: landlock.AccessFSResolveUnix,
	} {
		if abi >= version {
			access |= right
		}
	}

	return access
}

// newScope returns a Landlock ruleset that restricts only signals and abstract sockets. Unlike one
// for files, it permits mounts.
func newScope() (*os.File, error) {
	fd, err := landlock.LandlockCreateRuleset(&landlock.RulesetAttr{Scoped: landlock.ScopeAbstractUnixSocket | landlock.ScopeSignal}, 0)
	if err != nil {
		return nil, fmt.Errorf("create the Landlock ruleset: %w", err)
	}

	return os.NewFile(uintptr(fd), "ruleset"), nil
}

// newRuleset returns a Landlock ruleset. Without the network, the command has no ports. Of the
// sockets of other programs, it can connect to those in sockets.
func newRuleset(abi int, read, write, sockets []string, network bool) (*os.File, error) {
	handled := accessOf(abi)
	attributes := landlock.RulesetAttr{HandledAccessFS: handled}
	if abi >= abiScope {
		attributes.Scoped = landlock.ScopeAbstractUnixSocket | landlock.ScopeSignal
	}

	if !network && abi >= abiNetwork {
		attributes.HandledAccessNet = landlock.AccessNetBindTCP | landlock.AccessNetConnectTCP
		if abi >= abiUDP {
			attributes.HandledAccessNet |= landlock.AccessNetBindUDP | landlock.AccessNetConnectSendUDP
		}
	}

	fd, err := landlock.LandlockCreateRuleset(&attributes, 0)
	if err != nil {
		return nil, fmt.Errorf("create the Landlock ruleset: %w", err)
	}

	ruleset := os.NewFile(uintptr(fd), "ruleset")
	for _, path := range read {
		err = errors.Join(err, addRule(ruleset, path, accessRead&handled))
	}

	for _, path := range write {
		err = errors.Join(err, addRule(ruleset, path, handled&^(landlock.AccessFSMakeBlock|landlock.AccessFSMakeChar|landlock.AccessFSResolveUnix)))
	}

	for _, path := range sockets {
		if abi >= abiResolveUnix {
			err = errors.Join(err, addRule(ruleset, path, landlock.AccessFSResolveUnix))
		}
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("add rules to the Landlock ruleset: %w", err), ruleset.Close())
	}

	return ruleset, nil
}

func addRule(ruleset *os.File, path string, access uint64) error {
	// A link that has replaced the file since links were resolved permits nothing.
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return nil
	}

	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}

	defer func() { _ = unix.Close(fd) }()
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}

	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= accessFile
	}

	err = landlock.LandlockAddPathBeneathRule(int(ruleset.Fd()), &landlock.PathBeneathAttr{AllowedAccess: access, ParentFd: fd}, 0)
	if err != nil {
		return &os.PathError{Op: "permit", Path: path, Err: err}
	}

	return nil
}
