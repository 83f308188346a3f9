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

// launcherCalls are those of deniedCalls that a launcher needs for its namespaces.
var launcherCalls = []string{"mount", "umount2", "pivot_root", "mount_setattr"}

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

// newFilter returns a seccomp program. The command can use sockets of the given families only, and
// with streams, of AF_INET and AF_INET6 only those of TCP. An isolated command sees no processes
// but its own. A nested one starts launchers.
func newFilter(isolated, nested, streams bool, families ...uint64) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("find the architecture: %w", err)
	}
	// The kernel uses 32 bits of the argument. One with other bits is equal to no family.
	var others seccomp.ArgumentConditions
	for _, family := range families {
		others = append(others, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
	}
	sockets := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.EAFNOSUPPORT)}
	if len(others) > 0 {
		sockets.NamesWithCondtions = []seccomp.NameWithConditions{{Name: "socket", Conditions: others}}
	} else {
		sockets.Names = []string{"socket"}
	}
	denied := seccomp.SyscallGroup{Action: seccomp.ActionErrno, Names: known(info, deniedCalls)}
	if nested {
		denied.Names = slices.DeleteFunc(denied.Names, func(name string) bool { return slices.Contains(launcherCalls, name) })
	}
	missing := missingCalls
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
		denied, sockets,
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: known(info, missing)},
	}}
	first := prefix(info, nested)
	if streams {
		first = append(first, streamsOnly(info)...)
	}
	return assemble(policy, first...)
}

// known returns the names of the calls that the architecture has.
func known(info *arch.Info, names []string) (result []string) {
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

// streamsOnly returns the instructions that deny datagrams, and protocols such as MPTCP, to which
// the rules of Landlock for TCP do not apply.
func streamsOnly(info *arch.Info) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(info.SyscallNames["socket"]), SkipTrue: 9},
		bpf.LoadAbsolute{Off: offsetArgs, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 7},
		bpf.LoadAbsolute{Off: offsetArgs + 8, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf}, // without SOCK_NONBLOCK and SOCK_CLOEXEC
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_STREAM, SkipTrue: 3},
		bpf.LoadAbsolute{Off: offsetArgs + 16, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_TCP, SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.EPROTONOSUPPORT)},
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4}, // for what follows
	}
}

// prefix returns the instructions that the library does not have. Calls of other architectures,
// whose numbers differ, do not exist, nor do calls that are newer than the library. Arguments of
// which the kernel uses 32 bits are compared as 32 bits.
func prefix(info *arch.Info, nested bool) []bpf.Instruction {
	namespaces := uint32(newNamespaces)
	if nested {
		namespaces = 0
	}
	deny := bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.EPERM)}
	newest := slices.Max(slices.Collect(maps.Values(info.SyscallNames)))
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(info.ID), SkipTrue: 2},
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(newest), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)},
		// clone with a new namespace
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(info.SyscallNames["clone"]), SkipTrue: 3},
		bpf.LoadAbsolute{Off: offsetArgs, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaces, SkipTrue: 1},
		deny,
		// characters pushed into a terminal
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(info.SyscallNames["ioctl"]), SkipTrue: 4},
		bpf.LoadAbsolute{Off: offsetArgs + 8, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: tioclinux, SkipTrue: 1},
		deny,
	}
}

const tioclinux = 0x541C
