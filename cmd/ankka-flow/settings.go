package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ankka-flow/cmd/ankka-flow/config"
	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/kafka"
)

// unconfigured are the commands that work whatever the configuration is.
var unconfigured = map[string]bool{"new": true, "ankka-flow": true, "version": true, "help": true, "completion": true, cobra.ShellCompRequestCmd: true}

// configure reads the configuration of a command, and gives the flags that were
// not given what the environment and the file say. Every problem is in the error.
func (a *app) configure(cmd *cobra.Command) error {
	if unconfigured[cmd.Name()] || cmd.HasParent() && cmd.Parent().Name() == "completion" {
		a.settings = &config.Settings{}
		return nil
	}
	flags := cmd.Flags()
	in := config.Input{Command: family(cmd), Flags: map[string][]string{}, Environ: os.Environ(), Variables: variables(cmd.Root())}
	if cmd.Name() == "check" { // it judges what run would do
		in.Command = "run"
	}
	flags.Visit(func(f *pflag.Flag) {
		if configured(cmd, f) {
			in.Flags[f.Name] = flagTexts(f)
		}
	})
	settings, err := config.Load(in)
	a.settings = settings
	if err != nil && cmd.Name() != "probe" { // which needs the state directory alone
		return err
	}
	problems := []error{err}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || !configured(cmd, f) {
			return
		}
		for _, text := range settings.Flag(f.Name) {
			if err := flags.Set(f.Name, text); err != nil {
				problems = append(problems, fmt.Errorf("--%s: %w", f.Name, err))
			}
		}
	})
	return errors.Join(problems...)
}

// configured says that a flag of a command is a setting of the table; others are
// arguments, which only their variables may stand for.
func configured(cmd *cobra.Command, f *pflag.Flag) bool {
	key := config.KeyOfFlag(f.Name)
	return key != nil && key.Has(family(cmd))
}

// family is the name of the command below the root that a command belongs to, by
// which the table names commands: topics for `topics list`.
func family(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.Name()
}

// flagTexts is what a flag was given, as often as it was.
func flagTexts(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// variables are those of the flags of a command and of every one below it.
func variables(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) { names = append(names, config.EnvironmentName(f.Name)) }
	cmd.Flags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, child := range cmd.Commands() {
		names = append(names, variables(child)...)
	}
	return names
}

// usage is the help text of a flag that is a setting.
func usage(flag string) string { return config.KeyOfFlag(flag).Usage() }

// namedBrokers is how the configured brokers are reached; without any, Brokers is
// empty.
func (a *app) namedBrokers() kafka.Config {
	s := a.settings
	return kafka.Config{Brokers: s.Brokers, TLS: s.TLS, SASL: s.SASL, RequestTimeout: s.RequestTimeout, DialTimeout: s.DialTimeout}
}

// embeddedAsked refuses to choose the embedded broker by itself where there is a
// configuration file: whoever wrote one means another.
func embeddedAsked(s *config.Settings) error {
	if len(s.Brokers) > 0 || s.BrokersInDoubt || s.Embedded || s.File == "" {
		return nil
	}
	return misuse("%s names no broker, and beside a configuration file the embedded one is not chosen by itself: set bootstrap.servers (or --brokers, FLOW_BROKERS), or ask for it with --embedded", s.File)
}

// declared is what the configuration says about the streamlet.
func declared(s *config.Settings) driver.Declared {
	d := driver.Declared{
		Pipeline: s.Pipeline, Streamlet: s.Streamlet, Topics: s.Topics, Groups: s.Groups, ClientIDs: s.ClientIDs,
		Ports: map[string]driver.NamedPort{}, Params: s.PlainParams(), SecretParams: s.SecretParams(), Inputs: s.Inputs, Errors: s.Errors,
	}
	for port, p := range s.Ports {
		d.Ports[port] = driver.NamedPort{Kind: p.Kind, Where: p.Where}
	}
	return d
}

// shared says that another inlet of a plan is in the same group, where a static
// member's name may be used once.
func shared(plan *driver.Plan, in driver.PlannedInlet) bool {
	for _, other := range plan.Inlets {
		if other.Port != in.Port && other.Group == in.Group {
			return true
		}
	}
	return false
}
