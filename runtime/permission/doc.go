// Package permission decides which tools a model is offered and which of its calls may run,
// from a permission mode and two lists of rules. There is nobody to ask: what is not allowed is
// refused.
//
// # Rules
//
// A rule names a tool, or a tool and a pattern over its input. One rule of the disallowed list
// that matches refuses the call, whatever else says. With a list of allowed rules, a tool that
// it does not name is refused in every mode; one that it names by patterns alone may run only
// where a pattern matches, also in bypassPermissions and if it is read-only; and what it allows
// runs without the mode being asked (except in plan). A tool listed without a pattern, also
// beside one with, is not restricted.
//
//	Read                         the tool, whatever its input
//	mcp__files, mcp__files__*    every tool of an MCP server
//	mcp__files__search           one tool of it
//	Read(docs/*.md)              files that Read may read; what it may not, Grep and Glob leave out
//	Edit(src/**)                 files that Edit and Write may change ("Edit" names Write too)
//	Write(src/**)                files that Write may write
//	Bash(git *)                  commands; Bash(git:*) is the older form
//	WebFetch(domain:example.com) hosts
//	Skill(review), Task(review)  by name; * stands for any text
//
// For any other tool no pattern language is known: a pattern then never allows and always denies.
//
// # Paths
//
// Path patterns are gitignore-style globs relative to the working directory, in exact case: "**"
// is any number of directories, "{a,b}" are alternatives, a pattern without a slash inside
// matches at any depth, a leading "/" or "./" stands for the working directory, and what matches
// a directory covers all below it. A pattern for what is below a directory alone ("tmp/",
// "tmp/**") denies the directory too. A rule denies if it matches the path as it is written or
// where it leads through links; it allows only if it matches where the path leads.
//
// # Commands
//
// A Bash pattern is held against each simple command by itself, wherever it stands: behind
// "&&", "|" or a new line, in a loop, in a subshell. Allowed is a command of which every part
// matches some pattern; denied is one of which any part matches one. What is compared are the
// words after the shell has taken quotes and backslashes away, one space between them. "*"
// matches any text, spaces included. A pattern that ends in " *" matches the command without
// arguments as well, so that "git *" is "git" and "git status", and not "gitk". "git:*" is the
// same, and matches "git:x". For a deny pattern a command named by path counts by its name too
// ("/usr/bin/git" is "git"), and an argument that is not known before it runs ($X, *.go) counts
// as whatever the pattern wants. To an allow pattern such an argument is nothing but what "*"
// matches, and "/tmp/git" is not "git".
//
// Some commands cannot be read with certainty. They match no allow pattern, and every deny
// pattern: syntax errors, command and process substitution, arithmetic, parameter expansions
// with operators, variables and globs as command names, assignments, function definitions, "[[",
// here-documents whose end is open to doubt, redirections into files other than /dev/null, and
// commands that run what they are given (env, xargs, sudo, bash, eval, "find -exec", "git -c" and
// their like).
//
// This reads commands, not programs: an interpreter, a build tool or a script that is allowed may
// do anything, and a deny pattern does not see into it. It is no sandbox.
//
// # Edits
//
// What acceptEdits and auto approve is Write and Edit on a path that leads to a place in the working
// directory. Below .git at any depth and below the agent home, in any letter case, and for a file
// named HEAD (which makes a folder a git repository, whose config names commands) they do not.
//
// # Hosts
//
// "domain:example.com" denies the host and all its subdomains, and allows the host alone.
// "domain:*.example.com" is every subdomain, "domain:*" any host. A URL whose host cannot be
// told with certainty (user information, a name that is not ASCII, a syntax error) is never
// allowed and always denied. Whoever follows a redirect has to check the new URL.
//
// # What auto knows
//
// In auto a Bash command runs unlisted if it is made of ls, pwd, cat, head, tail, wc, grep, rg,
// find, stat, file, du, df, date, echo, which and git status, diff, log, show and branch, each
// with options from a table of harmless ones and with paths inside the working directory, joined
// by pipes, "&&", "||" and ";". All words are literal: a variable or an unquoted glob may become
// an option or a link. Files that rules hide from Read are not pre-approved to these either, nor
// are FIFOs, sockets and devices, at which a command may wait for ever; which those are is looked
// up below Config.CWD where there is a Config.Resolve.
package permission
