package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/internal/fault"
)

// explainCommand returns the command that prints what caused an error and what to do. It needs no
// hub.
func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [ERROR]",
		Short: "What caused an error, and what to do",
		Long: `Prints what caused an error of the hub, of an answer, of a runtime or of a deployment, and what to do: the error is
its code, or its whole text. Without an error it lists all of them.`,
		Example: `  agenthost explain agent_not_deployed
  agenthost explain "Session busy"
  agenthost explain`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeFaults,
		RunE: func(_ *cobra.Command, args []string) error {
			text := strings.TrimPrefix(strings.Join(args, " "), "agenthost: ") // as it is printed
			found := fault.Of(text)
			if len(found) == 0 {
				return fmt.Errorf("%w: no error is %q; agenthost explain lists the errors", errNotFound, text)
			}

			if text == "" || a.format != "table" || a.quiet {
				return printList(a, seq(found), func(f fault.Fault) []field {
					return []field{{"error", f.Code}, {"of", f.Origin}, {"cause", f.Cause}}
				})
			}

			for i, f := range found {
				if i > 0 {
					fmt.Fprintln(a.stdout)
				}

				if err := a.printOne(f, field{"error", f.Code}, field{"of", f.Origin}, field{"cause", f.Cause}, field{"what to do", f.Remedy}); err != nil {
					return err
				}
			}

			return nil
		},
	}
}

// completeFaults completes the code of an error.
func completeFaults(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var codes []string
	for _, f := range fault.Of("") {
		if len(args) == 0 && strings.HasPrefix(f.Code, prefix) {
			codes = append(codes, f.Code)
		}
	}

	return codes, cobra.ShellCompDirectiveNoFileComp
}
