package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/domain"
)

// Network says what a confined command can connect to.
type Network string

// The networks of a Policy.
const (
	NetworkProxy Network = "proxy" // the proxy of the sandbox only, see Policy.Domains
	NetworkNone  Network = "none"  // nothing
	NetworkAll   Network = "all"   // everything that the process outside can connect to
)

// Policy is what a confined command can reach. Nothing else is visible to it.
type Policy struct {
	// Dir is the working directory, which the command may change. Required.
	Dir string

	// Private is a directory of the sandbox, which the command may change. It has the home directory
	// and the temporary files of all commands. Required, absolute, not inside Dir.
	Private string

	// Home is the home directory of the user, which no default of the sandbox makes readable.
	Home string

	// Hidden are files and directories that no default of the sandbox makes readable, although they
	// are inside a directory of the system or of Path. All are absolute. In Dir, Read and Write they
	// are not hidden.
	Hidden []string

	// Read are files and directories that the command may read and execute, in addition to those of
	// the system and of Path. Write are those that it may change too. Both are absolute. One that
	// does not exist is ignored.
	// Read adds nothing to what is inside a writable directory.
	Read  []string
	Write []string

	// Protects reports whether files and directories with a name are protected. What exists with such
	// a name in Dir, at any depth, when a command starts, what such a link leads to, and the absolute
	// paths of Protected, are read-only, unless Write has an entry in Dir that names them or a
	// directory around them. Of the directory .git in Dir, only hooks and config are. Sockets of other
	// programs in Dir are hidden. It needs namespaces.
	Protects  func(name string) bool
	Protected []string

	// Path is the PATH of the commands: its directories may be read, and the toolchains around
	// them.
	Path string

	// Network defaults to NetworkProxy.
	Network Network

	// Domains are the hosts that the proxy connects to: "example.com", "*.example.com" for the names
	// below it, "example.com:8443" for a port other than 80 and 443. Defaults to all public hosts.
	Domains []string

	// Nested says that the command is a program, such as a runtime, which confines commands itself:
	// it may create namespaces and mount, in its own view of the system. It may have extra files, its
	// environment is not changed, and only the Limits that are set apply. Network must be NetworkAll.
	Nested bool

	// User is the id of the user and the group of a nested command, if this process is root. Zero
	// means the user of this process. That group must be able to enter Private.
	User int

	// Limits of one command. Zero values are replaced with the defaults.
	Limits Limits
}

// Limits bound what one command and its descendants use.
type Limits struct {
	AddressSpace uint64 // bytes of one process; defaults to 16 GiB
	FileSize     uint64 // bytes of one file; defaults to 8 GiB
	OpenFiles    uint64 // of one process; defaults to 4,096
	Memory       uint64 // bytes, where a control group can be created; defaults to 2 GiB
	Processes    uint64 // else of the user id, except for root, and of a nested command only with a User; defaults to 1,000
}

// Launcher is the name, the first argument, of the processes between a program and its confined
// commands.
const Launcher = "agenthost-sandbox"

var errPath = errors.New("the path is not absolute")

func (p Policy) check() error {
	if p.Dir == "" || p.Private == "" {
		return errors.New("the sandbox needs Dir and Private")
	}

	for _, path := range slices.Concat([]string{p.Dir, p.Private}, p.Hidden, p.Read, p.Write, p.Protected) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%s: %w", path, errPath)
		}

		if strings.ContainsRune(path, 0) {
			return fmt.Errorf("%q contains a null byte", path)
		}
	}

	if p.Nested && p.Network != NetworkAll || p.User != 0 && !p.Nested {
		return errors.New("a nested command needs the network all, and only a nested one can have another user")
	}

	switch p.Network {
	case NetworkProxy, NetworkNone, NetworkAll:
	default:
		return fmt.Errorf("network is %q: use proxy, none or all", p.Network)
	}

	for _, text := range p.Domains {
		if _, err := domain.Parse(text); err != nil {
			return err
		}
	}

	return nil
}

// Support is what the kernel enforces on this system.
type Support struct {
	Files   bool // files are confined
	Network bool // connections are confined

	// Isolated reports whether a command has namespaces of its own: it sees no process and no file
	// but its own and the permitted ones, and its loopback interface is private.
	Isolated bool

	// Memory and Processes report whether a command has these limits. Without a control group, only
	// the address space of each process is limited, and the number of processes of a user, but not of
	// root.
	Memory, Processes bool

	Reason string // why something is not enforced; empty if everything is
}
