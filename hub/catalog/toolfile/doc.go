// Package toolfile reads the name of a custom tool from its file, without running it.
//
// The file is untrusted. [Name] reads its tokens once or a few times, in time and memory linear in
// its size, without recursion that the file controls. Files of at most 256 KiB are then parsed by
// esbuild, so that syntax errors are reported when a tool is uploaded. esbuild is not given what
// makes it slow or large: deep nesting (package jsdepth), members of enums, which it multiplies,
// and larger files. The runtime compiles every file in a process of its own, and reports what is
// not found here.
package toolfile
