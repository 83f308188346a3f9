// Package archive reads uploaded skills: a .zip, a .tar.gz, or one SKILL.md. It checks every entry
// and writes a zip that depends only on the content of the files, their names and which of them are
// executable.
//
// The archive is untrusted. It has at most 20 MiB, 2,000 entries, 2,000 directories, 32 segments in
// a path and 256 KiB of paths, and is read once. Nothing is written to a path from it: contents are
// copied to one temporary file of at most 100 MiB and about
// 200 times the size of the archive, and memory is bounded. Entries of other systems (__MACOSX,
// .DS_Store) are omitted.
package archive
