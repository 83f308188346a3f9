package sandbox

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// deniedCalls return EPERM: they reach other processes, the kernel or the devices of the machine,
// or are so seldom used and so complex that they are where the kernel's faults are found.
var deniedCalls = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
	"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsmount", "fsconfig", "fspick", "mount_setattr",
	"unshare", "setns",
	"bpf", "perf_event_open", "userfaultfd", "add_key", "keyctl", "request_key",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff",
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname",
	"iopl", "ioperm", "modify_ldt", "name_to_handle_at", "open_by_handle_at", "fanotify_init", "quotactl", "quotactl_fd",
	"acct", "syslog", "vhangup", "lookup_dcookie", "nfsservctl", "uselib", "move_pages", "migrate_pages",
}

// launcherCalls are those of deniedCalls that a launcher needs for its namespaces: unshare only for
// one of processes.
var launcherCalls = []string{"mount", "umount2", "pivot_root", "mount_setattr", "unshare"}

// missingCalls return ENOSYS, so that programs use other ones. The filter cannot see the flags of
// clone3, which are in memory.
var missingCalls = []string{"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"}

// otherProcesses take the id of a process as their first argument. Only that of the caller, 0, is
// permitted where the command sees the processes of the system; userProcesses can change all
// processes of the user.
var (
	otherProcesses = []string{"prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"}
	userProcesses  = []string{"setpriority", "ioprio_set"}
)

// sharedMemory are the calls for objects that all processes of a namespace share, and that outlive
// them. They do not exist for a command that has no namespace of its own.
var sharedMemory = []string{
	"shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink",
}

const newNamespaces = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
	unix.CLONE_NEWTIME&^0xff | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS // the lowest byte is the exit signal

// objects are the sockets and files that a command can create.
type objects struct {
	families []uint64 // of sockets

	// proxied is set for a command that has no internet sockets. Instead of a stream of AF_INET or
	// AF_INET6 it gets a connection to the proxy, which its launcher creates: see the package launch.
	proxied bool

	// shared is set for a command whose launcher creates the files of /dev/shm.
	shared bool
}

// newFilter returns a seccomp program. An isolated command sees no processes but its own. A nested
// one starts launchers, and if it is isolated, with namespaces.
func newFilter(p Policy, isolated bool, can objects) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("find the architecture: %w", err)
	}

	// The kernel uses 32 bits of the argument. One with other bits is equal to no family.
	var others seccomp.ArgumentConditions
	for _, family := range can.families {
		others = append(others, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
	}

	denied := seccomp.SyscallGroup{Action: seccomp.ActionErrno, Names: known(info, deniedCalls)}
	namespaces := p.Nested && isolated
	if namespaces {
		denied.Names = slices.DeleteFunc(denied.Names, func(name string) bool { return slices.Contains(launcherCalls, name) })
		others := seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: unix.CLONE_NEWPID}
		denied.NamesWithCondtions = []seccomp.NameWithConditions{{Name: "unshare", Conditions: []seccomp.Condition{others}}}
	}

	first := prefix(info, namespaces)
	missing := missingCalls
	if !p.Nested {
		missing = append(slices.Clone(missing), "openat2") // its mode is in memory too
		first = append(first, setuidModes(info)...)
	}

	noSocket := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.EAFNOSUPPORT)}
	if len(others) > 0 {
		noSocket.NamesWithCondtions = []seccomp.NameWithConditions{{Name: "socket", Conditions: others}}
	} else {
		noSocket.Names = []string{"socket"}
		first = append(first, noDatagrams(info)...)
	}

	if can.proxied {
		first = append(first, proxiedSockets(info)...)
	}

	if can.shared {
		first = append(first, sharedFiles(info)...)
	}

	if !isolated {
		missing = slices.Concat(missing, sharedMemory)
		denied.Names = append(denied.Names, userProcesses...)
		for _, name := range otherProcesses {
			denied.NamesWithCondtions = append(denied.NamesWithCondtions, seccomp.NameWithConditions{
				Name: name, Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.NotEqual, Value: 0}},
			})
		}
	}

	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		denied, noSocket,
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: known(info, missing)},
	}}
	return assemble(policy, first...)
}

// known returns the names of the calls that the architecture has.
func known(info *arch.Info, names []string) []string {
	var result []string
	for _, name := range names {
		if _, found := info.SyscallNames[name]; found {
			result = append(result, name)
		}
	}

	return result
}

// assemble returns the seccomp program of a policy, after first.
func assemble(policy seccomp.Policy, first ...bpf.Instruction) ([]byte, error) {
	rest, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("assemble the seccomp program: %w", err)
	}

	program, err := bpf.Assemble(append(first, rest...))
	if err != nil {
		return nil, fmt.Errorf("assemble the seccomp program: %w", err)
	}

	var encoded []byte
	for _, instruction := range program {
		encoded = binary.NativeEndian.AppendUint16(encoded, instruction.Op)
		encoded = append(encoded, instruction.Jt, instruction.Jf)
		encoded = binary.NativeEndian.AppendUint32(encoded, instruction.K)
	}

	return encoded, nil
}

const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16 // 8 bytes each, the lower half first
)

// onCall returns instructions for the system call with a name. Other calls skip them.
func onCall(info *arch.Info, name string, instructions ...bpf.Instruction) []bpf.Instruction {
	number, found := info.SyscallNames[name]
	if !found {
		return nil
	}

	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: uint8(len(instructions))}, // few
	}, instructions...)
}

// argument loads the lower 32 bits of an argument.
func argument(i uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offsetArgs + 8*i, Size: 4} }

func errno(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(e)}
}

// noDatagrams denies pairs of sockets that are not streams: such a socket can be sent to the
// address of another one.
func noDatagrams(info *arch.Info) []bpf.Instruction {
	return onCall(info, "socketpair",
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_UNIX, SkipTrue: 4},
		argument(1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: socketTypes},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_SEQPACKET, SkipTrue: 1},
		errno(unix.EAFNOSUPPORT),
	)
}

// socketTypes are the bits of a type of socket without SOCK_NONBLOCK and SOCK_CLOEXEC.
const socketTypes = 0xf

// proxiedSockets passes the creation of internet sockets and their connections to the launcher.
// Options of the protocols that those sockets do not have are ignored.
func proxiedSockets(info *arch.Info) []bpf.Instruction {
	pass := bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}
	return slices.Concat(
		onCall(info, "socket",
			argument(0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_INET6, SkipTrue: 7},
			argument(1),
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: socketTypes},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_STREAM, SkipTrue: 4},
			argument(2),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 1},
			pass,
		),
		onCall(info, "connect", pass),
		onCall(info, "setsockopt",
			argument(1),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_TCP, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_IP, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_IPV6, SkipTrue: 1},
			errno(0),
		),
	)
}

// sharedFiles passes the calls to the launcher with which the C library creates, opens and removes
// semaphores and shared memory, and few others. The filter cannot see their paths.
func sharedFiles(info *arch.Info) []bpf.Instruction {
	pass := bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}
	var result []bpf.Instruction
	for name, flags := range map[string]uint32{"open": 1, "openat": 2} {
		result = append(result, onCall(info, name,
			argument(flags), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.O_EXCL | unix.O_NOFOLLOW, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.O_DIRECTORY, SkipTrue: 1}, pass,
		)...)
	}

	for name, directory := range map[string]string{"link": "linkat", "unlink": "unlinkat"} {
		if _, found := info.SyscallNames[name]; found {
			result = append(result, onCall(info, name, pass)...)
			continue
		}

		result = append(result, onCall(info, directory,
			argument(0), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: atWorkingDirectory, SkipTrue: 1}, pass,
		)...)
	}

	return result
}

const atWorkingDirectory = 1<<32 + unix.AT_FDCWD // as 32 bits

// setuidModes denies the modes that let other users execute a file with the rights of this one.
func setuidModes(info *arch.Info) []bpf.Instruction {
	const modes, creates = unix.S_ISUID | unix.S_ISGID, unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	var result []bpf.Instruction
	for _, call := range []struct {
		name string
		mode uint32 // the argument
	}{{"chmod", 1}, {"fchmod", 1}, {"fchmodat", 2}, {"fchmodat2", 2}, {"creat", 1}, {"mknod", 1}, {"mknodat", 2}} {
		result = append(result, onCall(info, call.name,
			argument(call.mode), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: modes, SkipTrue: 1}, errno(unix.EPERM),
		)...)
	}

	for name, flags := range map[string]uint32{"open": 1, "openat": 2} {
		result = append(result, onCall(info, name,
			argument(flags), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: creates, SkipTrue: 3},
			argument(flags+1), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: modes, SkipTrue: 1}, errno(unix.EPERM),
		)...)
	}

	return result
}

// prefix returns the instructions that the library does not have. Calls of other architectures,
// whose numbers differ, do not exist, nor do calls that are newer than the library. Arguments of
// which the kernel uses 32 bits are compared as 32 bits.
func prefix(info *arch.Info, nested bool) []bpf.Instruction {
	namespaces := uint32(newNamespaces)
	if nested {
		namespaces = 0
	}

	newest := slices.Max(slices.Collect(maps.Values(info.SyscallNames)))
	return slices.Concat(
		[]bpf.Instruction{
			bpf.LoadAbsolute{Off: offsetArch, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(info.ID), SkipTrue: 2},
			bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(newest), SkipTrue: 1},
			errno(unix.ENOSYS),
		},
		onCall(info, "clone", argument(0), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaces, SkipTrue: 1}, errno(unix.EPERM)),
		onCall(info, "ioctl", // characters pushed into a terminal
			argument(1),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: tioclinux, SkipTrue: 1},
			errno(unix.EPERM),
		),
	)
}

const tioclinux = 0x541C
