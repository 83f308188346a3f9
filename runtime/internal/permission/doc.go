// Package permission decides which tools a model is offered and which of its calls may run. A
// [Policy] consists of a permission mode and two lists of rules. No person is asked: a call that is
// not allowed is denied.
//
// # Rules
//
// A rule names a tool, or a tool and a pattern for its input:
//
//	Read                         the tool with every input
//	mcp__files, mcp__files__*    every tool of an MCP server
//	mcp__files__search           one tool of an MCP server, also by a name that models do not accept
//	Read(docs/*.md)              files that Read may read; Grep and Glob leave out the others
//	Edit(src/**)                 files that Edit and Write may change ("Edit" also names Write)
//	Write(src/**)                files that Write may write
//	Bash(git *)                  commands; Bash(git:*) is the older form
//	WebFetch(domain:example.com) hosts
//	Skill(review), Task(review)  names; "*" matches any text
//
// A disallowed rule that matches denies the call, regardless of the mode and the allowed rules. A
// list of allowed rules restricts the tools in every mode: a tool that no rule names is denied, and
// a tool that is named only with patterns may run only if a pattern matches, also in
// bypassPermissions and also if it is read-only. A rule without a pattern takes precedence over
// rules with patterns for the same tool. A call that the allowed rules permit needs no approval by
// the mode, except in mode plan.
//
// Other tools have no pattern language: a pattern for them allows nothing and denies everything.
//
// # Paths
//
// Path patterns are gitignore-style globs relative to the working directory. Letter case matters,
// except to deny: a rule denies every name that a file system may take for the same, such as those
// of macOS and Windows (another letter case or form of characters, a dot or space at the end).
// "**" matches any number of directories, and "{a,b}" matches either alternative. A pattern that
// contains no slash matches at any depth. A leading "/" or "./" anchors the pattern to the working
// directory. A pattern that matches a directory also matches everything below it. A pattern for the
// content of a directory ("tmp/", "tmp/**") also denies the directory itself.
//
// A rule denies a path if it matches the path as written, or the path that it leads to through
// links. It allows a path only if it matches the path that it leads to.
//
// # Commands
//
// If a rule or the mode auto has to read a Bash command, the policy reads it in a small language:
// lists (";", newline, "&&", "||") and pipelines of simple commands, whose words are literal
// characters, quotes without expansions, escapes and globs, with the redirections "<", ">", ">>",
// "2>&1" and "&>" of the descriptors 0 to 2. [Policy.Check] returns an input with a command that is
// written from the words that were judged: no part of the given text reaches bash, and bash starts
// exactly the programs that were judged. Package [shell] describes the language and what is
// executed.
//
// Everything else cannot be read: expansions, substitutions, here-documents, compound commands,
// functions, assignments, other descriptors, builtins that change the shell, and commands that are
// longer than 64 KiB. No allow pattern and no mode approves such a command, and every deny pattern
// denies it. Only a rule "Bash" without a pattern and bypassPermissions approve it. It is executed
// as it is written. The error names the construct and how to write the command plainly.
//
// A command is allowed if every simple command in it matches an allow pattern. "*" matches any
// text, including spaces. A pattern that ends in " *" also matches the command without arguments:
// "git *" matches "git" and "git status", but not "gitk" or "/tmp/git". "git:*" matches the same
// commands, and also "git:x". Only "*" matches a glob. No pattern approves a redirection into a
// file other than /dev/null: another command of the list may change what the path leads to.
//
// A command is denied if the literal words of a deny pattern occur in one of its simple commands,
// in the order of the pattern. Other words may be between them. A word also counts inside a quoted
// text, at the end of an option (--x=word, -xword) and as the base name of a path. For example,
// "git push *" denies "git -C . push", "env git push" and "sh -c 'git push'". A glob counts as any
// word. Deny patterns therefore err on the side of denying: "rm *" also denies "echo rm". Words are
// compared literally: "rm -rf *" does not deny "rm -r -f".
//
// Rules judge commands, not what programs do. An allowed program may run others: "Bash(git *)"
// allows aliases and hooks, and "Bash(env *)" allows every program. A deny pattern does not apply
// to a name that a program computes, as in sh -c 'x=pu; git ${x}sh'. Deny patterns are a filter,
// not a security boundary. Rules are not a sandbox.
//
// # Edits
//
// The modes acceptEdits and auto approve Write and Edit for files in the working directory. A
// protected path may decide which programs are executed. Only an allow pattern that names it and
// bypassPermissions approve a change, no other mode and no rule without a pattern. Names are
// compared in any letter case. Protected are:
//
//   - at any depth, names that begin with a dot, as the path is written and where links lead, except
//     those of [ProtectedName];
//   - what a link of such a name in the working directory leads to, and everything if the directory
//     is too large to find all of them: with paths of more than 64 MiB, or more than 1,000 such
//     links;
//   - the agent home, the paths of Config.Protected, and what they lead to.
//
// A pattern names a protected path if one of its names is literally the last name of that path, and
// the pattern up to there matches the path: Edit(.git/**), Edit(**/.husky/*) and Edit(.bashrc) do,
// Edit(**), Edit(.*/**) and Edit(**/hooks/*) do not. If several names of a path are protected, the
// pattern has to name the first one: Edit(.github/**).
//
// A path has at most 4,096 bytes and 256 names. A longer one is [ErrLongPath] in every mode.
//
// # Hosts
//
// "domain:example.com" allows only that host, and denies the host and all its subdomains.
// "domain:*.example.com" matches every subdomain, and "domain:*" every host. A URL whose host is
// ambiguous (user information, a name that is not ASCII, a syntax error) is never allowed and
// always denied. A caller that follows a redirect must check the new URL.
//
// # Read-only commands
//
// The mode auto approves a Bash command of ls, pwd, cat, head, tail, wc, grep, rg, find, stat,
// file, du, df, date, echo, which and git status, diff, log, show and branch. Each may have options
// from a table and paths in the working directory. Words are not globs, because a glob may match an
// option or a link. Files that rules hide from Read, FIFOs, sockets and devices, which a command
// may wait for forever, are not approved.
//
// git gets options that disable the programs that the configuration of a repository names. No
// option disables filters and core.worktree: git status and git diff are executed by a script,
// which fails if git config finds one in the configuration of the repository. git also reads a
// repository outside of the working directory, if the one in it refers to that: through a .git
// file, commondir, alternates or links.
package permission
