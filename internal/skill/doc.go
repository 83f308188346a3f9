// Package skill finds skills: directories with a file SKILL.md, which instructs a model how to do
// one kind of work.
//
//	---
//	name: pdf
//	description: Reads and fills in PDF forms. Use it when a file ends in .pdf.
//	---
//	Run scripts/fields.py to list the fields ...
//
// A [Scanner] searches the directories that an agent configures, and caches the result; a new
// Scanner sees changes. The model chooses by name and description. [Skill.Body] then reads the
// instructions.
//
// # Directories
//
// The source "user" is <HomeDir>/<AgentHome>/skills, then the agent's extra directories in their
// order. The source "project" is <CWD>/<AgentHome>/skills. If several skills have one name, the one
// found last is used; below one directory, the one whose path is last in byte order. A scan covers
// the directory itself and all depths below it, also below another SKILL.md. The file name matches
// in any letter case. A directory has one skill: the SKILL.md, or else the first one in byte order.
//
// # Links
//
// Symbolic links to directories and to SKILL.md files are followed. A directory that is reachable
// by several paths below one root is scanned once, under its own path if that is below the root.
// Loops therefore end. User skills may be links to any location. Project files come from an
// untrusted checkout: their links must end inside CWD, otherwise a checkout could make the model
// read any file of the machine. [Skill.Body] checks this again, because files can change after a
// scan.
//
// # Malformed files
//
// No mistake in a skill fails a scan. Frontmatter that is not YAML is read line by line, which is
// no mistake if it finds a description: other programs accept "description: Use this: now". A name
// that is missing or malformed is replaced by the name of the directory. A missing description is
// empty. A file that cannot be read is omitted. Each Scanner logs one warning per file: err lists
// the problems, and hint the corrections. Directories that do not exist are normal.
//
// # Bounds
//
// Only the frontmatter of a SKILL.md is parsed, at most 64 KiB, and only into YAML nodes: aliases
// are not expanded and repeated keys are not compared, so that time and memory are proportional to
// its size. The YAML package limits the depth.
package skill
