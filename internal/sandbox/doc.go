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
// a port. If there are Domains, the server name in the first message of TLS must be one of them,
// and must not be encrypted: many hosts can have one address. What a server does with the requests
// inside of TLS, such as another Host header, is not visible. A tunnel ends with its command, and
// after ten minutes without a byte. [Command.Denied] returns what the proxy has denied.
//
// The command has its own session, no capabilities, and no descriptors but stdin, stdout and
// stderr. A setuid program has no effect, and the command cannot create one: the modes set-user-id
// and set-group-id are denied, also for directories.
//
// # Protected paths
//
// With [Policy] Protects, names in the working directory that configure other programs are
// read-only, where there are namespaces. That holds for what exists when the command starts: such a
// file or directory cannot be changed, renamed, replaced or deleted, and nothing can be created in
// it. A directory around it can be renamed, and takes it along. A command can create a new name,
// which is read-only for the next command. Before each command, at most 100,000 entries are read to
// find them. A directory for which that or 1,000 protected paths are not enough is read-only as a
// whole, and so is one that cannot be read. The targets of its links are protected as far as they
// were found. What another program changes during a command is not protected, nor is what is
// reached by a hard link with another name. A socket in the working directory at which another
// program accepts connections when the command starts is an empty device for the command, unless
// Write names it or the network is NetworkAll. They are searched among the same entries, and among
// 10,000 of each protected directory. From Landlock 11, the command can connect to no socket of
// another program, except in Read and Write. Of the repository of the working directory, the
// directory .git can be written to, except for its config and hooks, which are created if they are
// missing. Other files there, such as commondir, can lead git to another configuration.
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
// Where namespaces cannot be created, Landlock and seccomp have to suffice. Names of files are
// visible although their content is not. The modes, times and extended attributes of all files of
// the user can be changed, and protected paths are not protected: a command that takes the modes of
// the directory of sandboxes makes later commands fail. Signals reach processes outside before
// Landlock 6. The network is that of the system, and so the command has no internet socket,
// whatever call it uses: seccomp denies the families of all sockets. With the proxy, the launcher
// gives the command a connection to it, a Unix socket, in place of each TCP socket that it creates;
// connect succeeds for the address of the proxy. Programs that look at the address of their socket,
// such as those in Java, can fail. The command cannot listen, and has no other Unix sockets than
// pairs. Of /dev/shm, it has only semaphores and shared memory of the C library: the launcher
// creates their files, in memory. A signal can interrupt link, unlink and open of such flags, if
// its handler does not restart calls. If a program around this one gets the notifications of
// seccomp, there is neither the proxy nor shared memory. [Enforcer.Support] reports what is
// enforced. Systems other than Linux enforce nothing.
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
// working directory that another program executes later, also in new files with protected names,
// and links there that another program follows.
//
// # The launcher
//
// A command is started by a new process of the program's own executable, which needs nothing from
// its main function: see the package launch. A program that imports this package must therefore not
// change its behaviour in init functions for the variable AGENTHOST_SANDBOX. Only that variable
// makes a process a launcher. A command does not have it, whatever its environment is.
package sandbox
