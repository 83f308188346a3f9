// Package sandbox starts commands that the Linux kernel confines, without root and without a
// container.
//
//	s, err := sandbox.New(sandbox.Policy{Dir: workspace, Private: private, Path: os.Getenv("PATH")})
//	...
//	cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: env}
//	command, err := s.Confine(cmd)
//	...
//	err = cmd.Start()
//	command.Started()
//
// # What a command can do
//
// It reads the files of the system, of the toolchains on PATH and of [Policy] Read. It changes
// those of its working directory, of a private home and temporary directory, and of Write. It
// connects to the proxy of the sandbox, which connects to public addresses and, if there are any,
// to the Domains: with CONNECT to port 443 and with plain requests to port 80, unless a domain has
// a port. [Command.Denied] returns what the proxy has denied. The command has its own session, no
// capabilities, and no descriptors but stdin, stdout and stderr. A setuid program has no effect.
//
// # What a command can use
//
// The [Limits] bound each process, and where this process can create control groups, version 2 or
// 1, the memory and the processes of the whole command. A command that exceeds the memory ends;
// this process does not. With version 2, the group of this process must be the root, or the one
// around it must be delegated, as with DelegateSubgroup of systemd. Elsewhere the processes of the
// user id are limited, but not those of root: see [Support].
//
// # How
//
// Where the kernel permits it, a command has its own namespaces of users, processes, mounts,
// network and interprocess communication. Nothing else has a name there: not other files or
// sockets, not processes, not the loopback interface of the system. All its processes end with it.
// In addition, Landlock restricts files, and seccomp denies the calls that reach processes, kernel
// or devices. Symbolic links are resolved by [New]: a link that replaces a permitted path later
// permits nothing.
//
// Where namespaces cannot be created, Landlock and seccomp have to suffice: names of files are
// visible although their content is not, the modes, times and extended attributes of files of the
// user can be changed, the command cannot listen, and signals reach processes outside before
// Landlock 6.
// [Sandbox.Support] reports what is enforced. Systems other than Linux enforce nothing.
//
// A [Policy] can be Nested: for a program such as a runtime, which confines commands itself. In its
// namespaces, it sees the permitted files only, and Landlock restricts its signals and abstract
// sockets. It may create further namespaces, and with them use more of the kernel than a command
// may.
//
// # Workers
//
// A process that only computes gives up all other rights with [ConfineWorker].
//
// # What it does not stop
//
// Faults of the kernel; covert channels; use of the processor, and of the disk by many files;
// requests to public hosts, which can carry data away unless Domains are set; changes in the
// working directory that another program executes later, and links there that another program
// follows.
//
// # The launcher
//
// A command is started by new processes of the program's own executable, which need nothing from
// its main function: see the package launch. A program that imports this package must therefore not
// change its behaviour in init functions for the variable AGENTHOST_SANDBOX.
package sandbox
