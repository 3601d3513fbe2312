package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ankka-flow/cmd/ankka-flow/config"
)

// completeValues makes `completion` know our values: those of the flags that are a
// choice, and folders and files where a flag is a path. It also gives `completion`
// itself our words for what is wrong.
func completeValues(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	each(root, func(cmd *cobra.Command) {
		add := func(f *pflag.Flag) {
			key := config.KeyOfFlag(f.Name)
			if key == nil || key.Kind != config.Choice {
				return
			}
			// The one error is that there is such a function already.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(key.Choices, cobra.ShellCompDirectiveNoFileComp))
		}
		cmd.LocalNonPersistentFlags().VisitAll(add)
		cmd.PersistentFlags().VisitAll(add)
		switch cmd.Name() {
		case "probe":
			cmd.ValidArgs = []string{"ready", "live"}
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, noCommand
		}
	})
}

func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, child := range cmd.Commands() {
		each(child, visit)
	}
}
