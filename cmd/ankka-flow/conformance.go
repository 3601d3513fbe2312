package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"ankka-flow/conformance"
)

func newConformance(a *app) *cobra.Command {
	var only string
	var list, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "conformance [flags] -- COMMAND [ARGUMENT ...]",
		Short: "Ask a process case by case whether it keeps to the protocol",
		Long: `conformance launches the reference streamlet, which conformance/REFERENCE.md describes, once a case,
and asks it what wire/PROTOCOL.md asks of a process. There is no broker. It prints a line a case; under one that failed, what
was expected, what came, and the trace of frames. docs/conformance.md is the page for whoever writes an SDK.`,
		Example: `  ankka-flow conformance -- python3 reference.py
  ankka-flow conformance --run 'stdio.stop' -- python3 reference.py
  ankka-flow conformance --list`,
		RunE: func(cmd *cobra.Command, args []string) error {
			suite := &conformance.Suite{Command: args, Patience: timeout}
			if only != "" {
				re, err := regexp.Compile(only)
				if err != nil {
					return misuse("--run %q: %w", only, err)
				}
				suite.Only = re
			}
			switch {
			case timeout < 0:
				return misuse("--timeout %v: it is more than 0", timeout)
			case len(suite.Chosen()) == 0:
				return misuse("--run %q: no case has such a name; `ankka-flow conformance --list` has them", only)
			case list:
				return a.listCases(suite.Chosen())
			case len(args) == 0:
				return misuse("conformance needs the command of the reference streamlet: ankka-flow conformance -- python3 reference.py")
			}
			if err := judgeCommand(args); err != nil {
				return misuse("%w", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), stopSignals()...)
			defer stop()
			return a.conformance(ctx, suite, asJSON)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&only, "run", "", "only the cases whose name this regular expression finds")
	cmd.Flags().BoolVar(&list, "list", false, "print the cases and what each asks; launch nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a case")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long a case waits each time for the process (default 10s)")
	return cmd
}

func (a *app) listCases(cases []conformance.Case) error {
	for _, c := range cases {
		if _, err := fmt.Fprintf(a.stdout, "%-38s %s (%s)\n", c.Name, c.Sentence, c.Section); err != nil {
			return err
		}
	}
	return nil
}

// conformance asks and prints. The summary is the last line on stdout; with JSON, where stdout
// holds one object a case, it is on stderr.
func (a *app) conformance(ctx context.Context, suite *conformance.Suite, asJSON bool) error {
	report := conformance.NewReport(a.stdout, asJSON)
	var broken error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := suite.Run(ctx, func(r conformance.Result) {
		if err := report.Add(r); err != nil && broken == nil {
			broken = err
			cancel()
		}
	})
	switch {
	case broken != nil:
		return broken
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	case errors.Is(err, conformance.ErrNotAsked), err != nil:
		return launchExit(err)
	}
	to := a.stdout
	if asJSON {
		to = a.stderr
	}
	fmt.Fprintln(to, report.Summary())
	if err == nil && report.Failed() > 0 {
		err = &exitError{code: 1}
	}
	return err
}
