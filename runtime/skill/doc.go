// Package skill finds skills: directories with a SKILL.md, which tells a model how to do one kind of work.
//
//	---
//	name: pdf
//	description: Reads and fills in PDF forms. Use it when a file ends in .pdf.
//	---
//	Run scripts/fields.py to list the fields ...
//
// A [Scanner] looks for them below the directories that an agent names, and remembers what it found: a new Scanner sees
// what has changed since. Name and description are for the model to choose by; [Skill.Body] reads the instructions when
// it has chosen.
//
// # Where a scan looks
//
// The source "user" is <HomeDir>/<AgentHome>/skills and then the agent's extra directories in their order; "project" is
// <CWD>/<AgentHome>/skills. Among skills of one name the one found last counts, and below one directory the one whose
// path comes last in byte order. A directory counts itself, with all below it at any depth, but what is below a SKILL.md
// belongs to that skill and is not looked at.
//
// # Links
//
// Symbolic links are followed, to directories and to SKILL.md files. A directory that is reached in several ways below
// one root counts once, under its own path if that is below the root, so that loops end. User skills may be linked in
// from anywhere. A project may have come from anybody: its links must end inside CWD, or a checkout could have any file
// of the machine read to a model. That holds for [Skill.Body] as well, whatever has been swapped in since the scan.
//
// # What is wrong with a file
//
// Nothing that a skill's author gets wrong fails a scan. Frontmatter that is not YAML is read line by line, a name that is
// missing or looks like none is that of the directory, and a description that is missing is empty. What cannot be read is
// left out. The log of each Scanner has one warning for a file: err is all that is wrong with it, and hint what to do.
// Directories that do not exist are normal.
package skill
