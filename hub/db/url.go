package db

import (
	"errors"
	"net/url"
	"strings"
)

// Errors about URLs never quote them, because they contain passwords.
var (
	errNoURL   = errors.New("the URL is empty: use sqlite://<path> or postgres://<user>:<password>@<host>/<database>")
	errScheme  = errors.New("the URL is neither sqlite://<path> nor postgres://<user>:<password>@<host>/<database>")
	errPath    = errors.New("the sqlite:// URL has no path")
	errMemory  = errors.New("the sqlite:// URL must name a file: an in-memory database belongs to one connection, and the hub uses several")
	errOptions = errors.New("the sqlite:// URL contains a ?: options and file names with a ? are not supported")
	errNUL     = errors.New("the path of the sqlite:// URL contains a NUL character")
	errURL     = errors.New("the postgres:// URL cannot be parsed: escape special characters in user and password as %XX")
)

// parse returns the engine of a URL, and the path of the file or the URL itself.
func parse(raw string) (Engine, string, error) {
	if raw == "" {
		return "", "", errNoURL
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	switch scheme {
	case "sqlite":
		return SQLite, rest, checkPath(rest)
	case "postgres", "postgresql":
		if _, err := url.Parse(raw); err != nil {
			return "", "", errURL
		}
		return PostgreSQL, raw, nil
	}
	return "", "", errScheme
}

func checkPath(path string) error {
	switch {
	case path == "":
		return errPath
	case path == ":memory:":
		return errMemory
	case strings.Contains(path, "?"):
		return errOptions
	case strings.Contains(path, "\x00"):
		return errNUL
	}
	return nil
}
