package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Exit codes. exitCodes explains them.
const (
	exitError       = 1
	exitUsage       = 2
	exitSignedOut   = 3
	exitForbidden   = 4
	exitNotFound    = 5
	exitRejected    = 6
	exitUnavailable = 7
	exitDamaged     = 8
	exitInterrupted = 130
)

// exitCodes is a help topic.
func exitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Exit codes for scripts",
		Long: `Exit codes:

  0    success
  1    another error, such as a failed deployment or a failed answer
  2    a wrong command line
  3    not signed in, or the sign-in has expired: run agenthost login
  4    the role of the user does not permit it
  5    it does not exist
  6    the hub rejected the request: invalid values, a name that is taken, an object in use
  7    the hub is away, overloaded or not ready
  8    a verification or a comparison found a difference: audit verify, agents diff
  130  interrupted; a command that follows a log ends with 0`,
	}
}

// usageError is a wrong command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func isUsage(err error) bool {
	_, ok := errors.AsType[*usageError](err)
	return ok
}

var (
	errInterrupted = errors.New("interrupted")
	// errDifferent is the error of a comparison that found a difference.
	errDifferent = errors.New("there are differences")
	// errRejected is the error of a request of which the hub rejected a part.
	errRejected = errors.New("rejected")
	// errNotFound is the error of a name that no object has.
	errNotFound  = errors.New("not found")
	errSignedOut = errors.New("no hub is known: run agenthost login URL, or set AGENTHOST_URL and AGENTHOST_TOKEN")
)

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	fault, rejected := errors.AsType[*wire.Error](err)
	_, network := errors.AsType[*url.Error](err)
	switch {
	case err == nil:
		return 0
	case isUsage(err):
		return exitUsage
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errDifferent):
		return exitDamaged
	case errors.Is(err, errNotFound):
		return exitNotFound
	case errors.Is(err, errRejected):
		return exitRejected
	case errors.Is(err, errSignedOut), errors.Is(err, errDenied):
		return exitSignedOut
	case rejected:
		return exitStatus(fault.Status)
	case network:
		return exitUnavailable
	}

	return exitError
}

func exitStatus(status int) int {
	switch status {
	case http.StatusUnauthorized:
		return exitSignedOut
	case http.StatusForbidden:
		return exitForbidden
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusTooManyRequests:
		return exitUnavailable
	}

	switch {
	case status >= http.StatusInternalServerError:
		return exitUnavailable
	case status >= http.StatusBadRequest:
		return exitRejected
	}

	return exitError
}

// explain returns the text of an error with what to do.
func explain(err error) string {
	text := err.Error()
	fault, ok := errors.AsType[*wire.Error](err)
	if ok {
		for _, field := range slices.Sorted(maps.Keys(fault.Data.Fields)) {
			text += "\n  " + field + ": " + fault.Data.Fields[field]
		}

		if len(fault.Data.Agents) > 0 {
			text += "\n  used by: " + strings.Join(fault.Data.Agents, ", ")
		}
	}

	if fault != nil && fault.Status >= http.StatusInternalServerError && fault.RequestID != "" {
		text += "\nthe log of the hub has the cause, with the request id " + fault.RequestID
	}

	switch exitCode(err) {
	case exitSignedOut:
		if !errors.Is(err, errSignedOut) {
			text += "\nrun agenthost login"
		}
	case exitUnavailable:
		if _, ok := errors.AsType[*url.Error](err); ok {
			text += "\nis the hub running? agenthost hubs lists the known ones"
		}
	}

	return text
}
