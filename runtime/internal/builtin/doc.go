// Package builtin implements the built-in tools: Read, Write, Edit, Glob, Grep, Bash, WebFetch,
// TodoWrite and Skill. Their names and inputs are the ones that models and users know.
//
//	dir, err := filesafe.Open("/srv/work")
//	tools := builtin.Tools(builtin.Config{Dir: dir})
//
// # Files
//
// Read, Write, Edit, Glob and Grep access only files in Config.Dir, also through symbolic links.
// Read may also open files below the directories of the user's skills. A relative path is relative
// to Dir. The error for a path outside does not depend on whether the file exists. Edit and Write
// follow no link: package permission replaces the path of a call by the one that it has judged.
//
// Glob and Grep return paths relative to Dir, without links. They do not follow links to
// directories, skip .git directories unless the search starts in one, and do not read .gitignore.
// Grep also skips links to files, as grep -r does.
//
// Files are streamed: memory is bounded for files, lines and trees of any size. Edit holds the file
// in memory, and rejects a file of more than 10 MiB.
//
// Edits and writes of one file by all tools of the process are serialized, so that none is lost.
// There is no lock against other processes, such as those of Bash, but no process sees a
// half-written file.
//
// # Web pages
//
// WebFetch reads at most 1 MiB. HTML is read token by token into a tree of at most 40,000 nodes, 40
// levels and 8 lists in each other, which is converted to Markdown, so that time and memory are
// proportional to the size of the page for any content. The conversion ends with the context of
// the call.
//
// # Output
//
// Output is valid UTF-8: invalid bytes become U+FFFD. Output longer than Config.MaxOutput is
// truncated: the text contains a note, and Result.Truncated is set. The error of an invalid call
// describes what the model can do.
package builtin
