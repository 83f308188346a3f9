package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
)

// Main is the program.
var Main = main

// Root returns the command line.
func Root() *cobra.Command {
	var out bytes.Buffer
	a := &app{getenv: func(string) string { return "" }, stdin: &out, stdout: &out, stderr: &out, notify: daemon.Notify}
	return a.root()
}

// After exports after.
var After = after

// LogLine exports logLine.
var LogLine = logLine

// BudgetText exports budgetText.
var BudgetText = budgetText

// ConnectTexts exports connectTexts.
var ConnectTexts = connectTexts
