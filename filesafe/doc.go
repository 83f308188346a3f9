// Package filesafe confines file access to one directory. No path and no symbolic link leads
// outside.
//
// [Open] opens a directory. [Dir] reads, lists, walks and writes below it:
//
//	dir, err := filesafe.Open("/srv/work")
//	f, err := dir.Open("reports/2026.pdf")
//
// Only the target of a path must be inside. Links may be absolute and may leave the directory and
// return; a path that ends outside fails with [ErrOutside]. The package resolves links itself and
// then opens the result through [os.Root], so that a link that is created concurrently cannot lead
// outside: the kernel never follows a path out of the directory. FIFOs, sockets and devices are
// never opened. Mounts below the directory are inside, and hard links are ordinary files. The
// directories of a path must be readable, because os.Root opens each of them.
//
// [Dir] takes and returns names as bytes. JSON is UTF-8: a listing of [Handlers] has U+FFFD for
// invalid bytes of a name, and the file can only be requested by the bytes of its name.
//
// [Handler] serves a directory by URL path. [Handlers] is the files interface of the agent runtime:
// listings as JSON, and downloads with ranges and conditional requests.
//
// The package needs only the standard library. On Linux it sends files with sendfile(2) if the
// http.ResponseWriter or its wrapper has a ReadFrom method that reaches the connection.
//
// Paths and requests are not trusted. Resolution follows at most 40 links, a listing holds a
// bounded number of names, and a download streams the file.
package filesafe
