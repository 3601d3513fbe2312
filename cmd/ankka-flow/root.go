package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ankka-flow/supervisor"
)

// app is what every command shares.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	global         globalFlags
	log            *slog.Logger
}

type globalFlags struct {
	brokers   []string
	logLevel  string
	logFormat string
	color     string
}

// exitError is an error with its exit code. One without a text was already
// shown.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// misuse is a wrong command line or configuration: exit code 2.
func misuse(format string, args ...any) error {
	return &exitError{code: supervisor.ExitCode(supervisor.Misused, nil, nil), err: fmt.Errorf(format, args...)}
}

// finish shows an error and gives its exit code; an error without one is a
// command that could not do what it was asked for.
func (a *app) finish(err error) int {
	if err == nil {
		return 0
	}
	code := supervisor.ExitCode(supervisor.Failed, nil, nil)
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if text := err.Error(); text != "" {
		// Each of several problems gets its own beginning; what is indented
		// belongs to the line before it.
		for _, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(line, " ") {
				line = "ankka-flow: " + line
			}
			fmt.Fprintln(a.stderr, line)
		}
	}
	return code
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "ankka-flow",
		Short: "Runs a streamlet: a program that takes records from Kafka topics and puts records on others",
		Long: `ankka-flow launches a program, feeds it the records of its inlets in order, writes
what it emits, waits for the broker's confirmation and only then commits.

Every flag can be given in the environment as FLOW_<FLAG>, for example
FLOW_LOG_LEVEL for --log-level; where a flag may be given several times, one a line.`,
		Example:       "  ankka-flow run -- python3 streamlet.py",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return a.openLog()
		},
	}
	flags := root.PersistentFlags()
	flags.StringSliceVarP(&a.global.brokers, "brokers", "b", nil, "Kafka brokers, host:port, separated by commas (default: an embedded broker, for development)")
	flags.StringVar(&a.global.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&a.global.logFormat, "log-format", "auto", "auto (text on a terminal, JSON elsewhere), text or json")
	flags.StringVar(&a.global.color, "color", "auto", "auto, always or never")
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "bootstrap-server" {
			name = "brokers"
		}
		return pflag.NormalizedName(name)
	})
	root.SetFlagErrorFunc(explainFlag)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetIn(a.stdin)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newRun(a), newBroker(a), newProduce(a), newConsume(a), newDescriptor(a), newProbe(a), newVersion(a))
	// Arguments are checked by hand in each command, so that a wrong one gets
	// exit code 2 and a sentence.
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return misuse("there is no command %q%s (`ankka-flow --help` lists them)", args[0], didYouMean(args[0], names))
	}
	return root
}

// fromEnvironment sets every flag that was not given from FLOW_<FLAG>.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		name := environmentName(f.Name)
		value, ok := lookup(name)
		if !ok || value == "" {
			return
		}
		values := []string{value}
		if f.Value.Type() == "stringArray" {
			values = strings.FieldsFunc(value, func(r rune) bool { return r == '\n' })
		}
		for _, v := range values {
			err := flags.Set(f.Name, v)
			if err != nil && f.Value.Type() == "bool" {
				err = errors.New("it is true or false")
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("%s=%q: %w", name, v, err))
			}
		}
	})
	if err := errors.Join(problems...); err != nil {
		return misuse("%w", err)
	}
	return nil
}

func environmentName(flag string) string {
	return "FLOW_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// explainFlag names the nearest flag for one that does not exist.
func explainFlag(cmd *cobra.Command, err error) error {
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
			hint = fmt.Sprintf("; did you mean --%s?", near)
		}
	}
	return misuse("%w%s (`ankka-flow %s --help` lists the flags)", err, hint, cmd.Name())
}

func didYouMean(given string, names []string) string {
	if near := nearest(given, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// nearest is the name that takes the fewest edits, or "" where none is close.
func nearest(given string, names []string) string {
	best, bestDistance := "", len(given)/3+2
	for _, name := range names {
		if d := editDistance(given, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
