package db

import (
	"errors"
	"net/url"
	"strings"
)

// Errors about URLs never quote them: they hold passwords.
var (
	errNoURL   = errors.New("the URL is empty: give sqlite://<path> or postgres://<user>:<password>@<host>/<database>")
	errScheme  = errors.New("the URL is neither sqlite://<path> nor postgres://<user>:<password>@<host>/<database>")
	errPath    = errors.New("the sqlite:// URL has no path")
	errMemory  = errors.New("the sqlite:// URL must name a file: a database in memory belongs to one connection, and there are several")
	errOptions = errors.New("the sqlite:// URL has a ?: it takes no options, and a file name with ? in it is not supported")
	errNUL     = errors.New("the sqlite:// URL has a NUL character in its path")
	errURL     = errors.New("the postgres:// URL cannot be read: special characters in user and password are written as %XX")
)

// parse answers the engine that a URL names and what its opener needs: the path of the file, or the URL.
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
