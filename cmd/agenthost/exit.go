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
	"github.com/seed93082962/agenthost/internal/fault"
)

// Exit codes. Package fault explains them.
const (
	exitError       = 1
	exitUsage       = 2
	exitSignedOut   = 3
	exitForbidden   = 4
	exitNotFound    = 5
	exitRejected    = 6
	exitUnavailable = 7
	exitDamaged     = 8
	exitWaiting     = 9
	exitInterrupted = 130
)

// exitCodes is a help topic.
func exitCodes() *cobra.Command {
	var text strings.Builder
	text.WriteString("Exit codes:\n\n  0    success\n")
	for _, f := range fault.Of("") {
		if f.Origin == fault.Exit {
			fmt.Fprintf(&text, "  %-4s %s\n", f.Code, f.Text())
		}
	}

	return &cobra.Command{Use: "exit-codes", Short: "Exit codes for scripts", Long: strings.TrimSpace(text.String())}
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
	case errors.Is(err, errWaiting):
		return exitWaiting
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
func (a *app) explain(err error) string {
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
		switch {
		case errors.Is(err, errSignedOut):
		case a.hub == "" && a.getenv("AGENTHOST_URL") != "":
			text += "\nset AGENTHOST_TOKEN to a CLI token of this hub; or unset AGENTHOST_URL, with which no sign-in is used, and run agenthost login"
		default:
			text += "\nrun agenthost login"
		}
	case exitUnavailable:
		if _, ok := errors.AsType[*url.Error](err); ok {
			text += "\nis the hub running? agenthost hubs lists the known ones"
		}
	}

	return text
}
