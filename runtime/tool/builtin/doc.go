// Package builtin has the tools that every agent may be given: Read, Write, Edit, Glob, Grep, Bash, WebFetch, TodoWrite
// and Skill. Their names and inputs are those that models and users know.
//
//	dir, err := filesafe.Open("/srv/work")
//	tools, err := builtin.Tools(builtin.Config{Dir: dir})
//
// # Files
//
// Read, Write, Edit, Glob and Grep stay in Config.Dir, wherever a path or a symbolic link leads; Read alone may also open
// what lies below the directory of a skill. A relative path is relative to Dir. What is outside is refused in one way,
// whether it is there or not.
//
// Glob and Grep answer paths relative to Dir, free of links. They follow no linked directory, leave out .git directories
// unless they are told to start in one, and do not read .gitignore. Grep leaves out links to files too, as grep -r does.
//
// Files are streamed: memory is bounded however large a file, a line or a tree is. Edit, which has to hold the file,
// refuses one of more than 10 MiB.
//
// Edits and writes of one file, of all tools in the process, happen one after the other, so that none is lost. Against
// other processes, those of Bash among them, there is no lock; they never see half a file.
//
// # Output
//
// Output is valid UTF-8: bytes that are not become U+FFFD. What does not fit Config.MaxOutput is cut, says so in the text
// and has Result.Truncated set. A faulty call is answered by an error whose text tells the model what to do.
package builtin
