// Package documents contains only tests, which compile the snippets of package comments and
// READMEs, and check the commands that the documents show.
package documents
