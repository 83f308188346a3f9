// Package filesafe gives access to one directory and to nothing outside it, whatever a path says and wherever a symbolic
// link leads.
//
// [Open] a directory, and read, list, walk or write below it through [Dir]:
//
//	dir, err := filesafe.Open("/srv/work")
//	f, err := dir.Open("reports/2026.pdf")
//
// What counts is where a path ends. Links may be absolute, and may lead out and in again; one that ends outside is
// [ErrOutside]. The package resolves links itself and then opens the result through [os.Root], so that a link that is
// swapped in between leads nowhere: the kernel never follows a path out of the directory. FIFOs, sockets and devices are
// neither opened nor read. Mounts below the directory count as inside, and hard links cannot be told from files. The
// directories on the way to a file must be readable, not searchable alone, because os.Root opens each of them.
//
// A name is bytes, as the system has it, and [Dir] takes and gives it so. JSON is UTF-8: in a listing of [API] a name that
// is not has U+FFFD for what is wrong with it, and the file cannot be fetched by that name, but by its bytes alone.
//
// [Handler] serves the directory over HTTP as it is. [API] is the pair of handlers of the agent runtime's files interface:
// a listing as JSON, and downloads with ranges and conditional requests.
//
// The package imports the standard library only. On Linux downloads go through sendfile(2) if the http.ResponseWriter,
// or the wrapper around it, has a ReadFrom that reaches the connection.
package filesafe
