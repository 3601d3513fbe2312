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

	"ankka-flow/cmd/ankka-flow/config"
	"ankka-flow/cmd/ankka-flow/screen"
	"ankka-flow/supervisor"
)

// app is what every command shares.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	global         globalFlags
	log            *slog.Logger
	// screen is stderr where that is a terminal and the log is text; nil: it is not.
	screen *screen.Screen
	// color: what goes to stderr may be colored.
	color bool
	// settings are the command's configuration; misconfigured is what is wrong with
	// it, where the command adds to that before it ends.
	settings      *config.Settings
	misconfigured error
	// signals are those that run is sent, from its first moment on.
	signals chan os.Signal
}

type globalFlags struct {
	config    string
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

// misuseCode is the exit code of bad usage or configuration.
var misuseCode = supervisor.ExitCode(supervisor.Misused, nil, nil)

// misuse is a wrong command line or configuration: exit code 2.
func misuse(format string, args ...any) error {
	return &exitError{code: misuseCode, err: fmt.Errorf(format, args...)}
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
FLOW_LOG_LEVEL for --log-level; where a flag may be given several times, one a line.
A flag that is given replaces its variable, all of its lines. Both win over a configuration
file (-c), name by name; docs/configuration.md has every key.`,
		Example:       "  ankka-flow run -- python3 streamlet.py",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			var problems []error
			if cmd.Name() != "check" { // it reads the configuration itself, and says what is wrong
				problems = append(problems, a.configure(cmd))
			}
			problems = append(problems, fromEnvironment(cmd, os.LookupEnv))
			err := errors.Join(problems...)
			switch {
			case err == nil && cmd.Name() == "check":
				return nil // a bad --log-level is among what it says
			case err == nil:
				return a.openLog()
			case cmd.Name() == "probe": // it judges a supervisor that runs, whatever is wrong by now
				return a.openLog()
			case cmd.Name() == "run":
				a.misconfigured = err // run looks at the files that it names too
				return nil
			}
			return &exitError{code: misuseCode, err: err}
		},
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.global.config, "config", "c", "", usage("config"))
	flags.StringSliceVarP(&a.global.brokers, "brokers", "b", nil, usage("brokers"))
	flags.StringVar(&a.global.logLevel, "log-level", "info", usage("log-level"))
	flags.StringVar(&a.global.logFormat, "log-format", "auto", usage("log-format"))
	flags.StringVar(&a.global.color, "color", "auto", usage("color"))
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "bootstrap-server" {
			name = "brokers"
		}
		return pflag.NormalizedName(name)
	})
	root.SetFlagErrorFunc(explainFlag)
	// What people type first; cobra brings the flag where there is a version.
	root.Version = "known" // not empty is all that matters: the template has the text
	root.SetVersionTemplate(versionText())
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetIn(a.stdin)
	root.AddCommand(newRun(a), newBroker(a), newTopics(a), newGroups(a), newProduce(a), newConsume(a), newDeadLetters(a), newDescriptor(a), newNew(a), newCheck(a), newConformance(a), newProbe(a), newVersion(a))
	// Arguments are checked by hand in each command, so that a wrong one gets
	// exit code 2 and a sentence.
	root.Args = cobra.ArbitraryArgs
	root.RunE = noCommand
	completeValues(root)
	return root
}

// noCommand is a command that is only the family of others: it shows its help,
// or names the nearest of them for one that does not exist.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return misuse("there is no command %q%s (`%s --help` lists them)", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "ankka-flow "), didYouMean(args[0], names), cmd.CommandPath())
}

// fromEnvironment sets every flag that is an argument of its command, and was not
// given, from FLOW_<FLAG>.
func fromEnvironment(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var problems []error
	flags := cmd.Flags()
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || configured(cmd, f) || f.Name == "help" || f.Name == "version" {
			return
		}
		name := config.EnvironmentName(f.Name)
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

// explainFlag names the nearest flag for one that does not exist.
func explainFlag(cmd *cobra.Command, err error) error {
	hint := ""
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "bool" {
		return misuse("--%s=%s: it is true or false", invalid.GetFlag().Name, invalid.GetValue())
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "" {
		// pflag quotes what stands behind the letter, as in -pPASSWORD.
		err = fmt.Errorf("unknown flag: -%s", unknown.GetSpecifiedName())
	} else if unknown != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := config.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			hint = fmt.Sprintf("; did you mean --%s?", near)
		}
	}
	return misuse("%w%s (`%s --help` lists the flags)", err, hint, cmd.CommandPath())
}

func didYouMean(given string, names []string) string {
	if near := config.Nearest(given, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
