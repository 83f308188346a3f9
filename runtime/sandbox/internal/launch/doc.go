// Package launch is the process between a caller of runtime/sandbox and a confined command: it sets
// up namespaces, mounts and limits, starts the command, and ends with it.
//
// A program that imports the package becomes the launcher if the environment has [Variable]: the
// init function of the package does not return then. The init functions of most other packages have
// not run at that time, which makes the start of a launcher ten times as fast as that of the
// program, and needs nothing from its main function. For that reason the package imports few
// packages, and none that imports unicode, reflect or os.
package launch
