package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ankka-flow/delivery/devbroker"
	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/kafka"
	"ankka-flow/wire"
)

func newCheck(a *app) *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use:   "check [flags] [-- COMMAND [ARGUMENT ...]]",
		Short: "Say whether a run would work: configuration, broker, topics, permissions, process, descriptor",
		Long: `check does what run does before the first record, changes nothing on the cluster, and
prints a line that begins with ok, or with FAIL and says what to do, for each thing it looked at.
Topics and permissions are those of the streamlet: of the command, or of the configured descriptor.
With --offline it reads the configuration alone. Exit code 1: something failed; 2: the configuration.`,
		Example: `  ankka-flow check -c flow.yaml -- python3 streamlet.py
  ankka-flow check --offline -c flow.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if offline && len(args) > 0 {
				return misuse("check --offline launches nothing, but there is the command %q; leave one of them out", strings.Join(args, " "))
			}
			if err := judgeCommand(args); err != nil {
				return misuse("%w", err)
			}
			if err := a.checkConfig(cmd); err != nil || offline {
				return err
			}
			if err := a.openLog(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), stopSignals()...)
			defer stop()
			return a.check(ctx, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&offline, "offline", false, "read the configuration only; connect to nothing")
	return cmd
}

// checkConfig prints what is wrong with the configuration, or that it is good.
func (a *app) checkConfig(cmd *cobra.Command) error {
	err := errors.Join(a.configure(cmd), embeddedAsked(a.settings))
	if err == nil {
		what := "flags and environment"
		if a.settings.File != "" {
			what = a.settings.File
		}
		_, err = fmt.Fprintf(a.stdout, "ok config: %s\n", what)
		return err
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		if _, err := fmt.Fprintf(a.stdout, "FAIL config: %s\n", line); err != nil {
			return err
		}
	}
	return &exitError{code: misuseCode}
}

// checkTimeout bounds each question to the cluster.
const checkTimeout = 15 * time.Second

// findings are the lines of one check, by what they are about.
type findings struct {
	lines  map[string][]string
	failed bool
}

func (f *findings) ok(about, format string, args ...any) {
	f.lines[about] = append(f.lines[about], fmt.Sprintf("ok %s: %s", about, fmt.Sprintf(format, args...)))
}

// fail notes each line of an error, but for those that are indented, which belong to
// the one before.
func (f *findings) fail(about string, err error) {
	f.failed = true
	for line := range strings.SplitSeq(strings.ReplaceAll(err.Error(), "\n  ", " "), "\n") {
		f.lines[about] = append(f.lines[about], fmt.Sprintf("FAIL %s: %s", about, line))
	}
}

// check looks at everything and prints it in one order.
func (a *app) check(ctx context.Context, args []string) error {
	f := &findings{lines: map[string][]string{}}
	plan := a.checkProcess(ctx, f, args)
	a.checkCluster(ctx, f, plan)
	for _, about := range []string{"broker", "topics", "permissions", "process", "descriptor"} {
		for _, line := range f.lines[about] {
			if _, err := fmt.Fprintln(a.stdout, line); err != nil {
				return err
			}
		}
	}
	if f.failed {
		return &exitError{code: 1}
	}
	return nil
}

// checkProcess asks the process what it is and compares it with the configuration and
// the deployed descriptor. The plan is nil where neither tells the ports.
func (a *app) checkProcess(ctx context.Context, f *findings, args []string) *driver.Plan {
	declared := declared(a.settings)
	var deployed, described *wire.Descriptor
	if file := a.settings.Descriptor; file != "" {
		var err error
		if deployed, err = readDescriptor(file); err != nil {
			f.fail("descriptor", err)
		}
	}
	if len(args) > 0 {
		var err error
		if described, err = a.discover(ctx, args, timingOf(a.settings)); err != nil {
			f.fail("process", err)
		}
	}
	if described != nil && deployed != nil {
		if differences := wire.Differences(deployed, described); len(differences) > 0 {
			f.fail("descriptor", errors.New("the process is not what "+a.settings.Descriptor+" says: "+strings.Join(differences, "; ")))
		} else {
			f.ok("descriptor", "%s is what the process says", a.settings.Descriptor)
		}
	}
	one := described
	if one == nil {
		one = deployed
	}
	if one == nil {
		return nil
	}
	plan, problems := driver.NewPlan(&declared, one)
	switch {
	case len(problems) > 0:
		f.fail("process", errors.New(strings.Join(problems, "\n")))
		return nil
	case described != nil:
		f.ok("process", "%s: %s -> %s", one.Streamlet.Name, strings.Join(wire.PortNames(one.Streamlet.Inlets), ", "), strings.Join(wire.PortNames(one.Streamlet.Outlets), ", "))
	}
	return plan
}

// checkCluster looks at the broker and at what the plan needs there.
func (a *app) checkCluster(ctx context.Context, f *findings, plan *driver.Plan) {
	cfg := a.namedBrokers()
	if len(cfg.Brokers) == 0 {
		a.checkEmbedded(ctx, f)
		return
	}
	client, err := a.newClient(cfg)
	if err != nil {
		f.fail("broker", err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 4*checkTimeout)
	defer cancel()
	if err := bounded(ctx, client.Probe); err != nil {
		f.fail("broker", err)
		return
	}
	f.ok("broker", "%s", strings.Join(cfg.Brokers, ", "))
	if plan == nil {
		return // the process says why, or nobody asked for more
	}
	checkTopics(ctx, f, client, plan, a.connectFlags(nil))
	checkRights(ctx, f, client, plan)
}

func bounded(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return ask(ctx)
}

// checkEmbedded: no broker is named. Nothing is started for a check.
func (a *app) checkEmbedded(ctx context.Context, f *findings) {
	if why := container(); why != "" && !a.settings.Embedded {
		f.fail("broker", fmt.Errorf("no broker is named, and %s: name yours with --brokers (FLOW_BROKERS), or ask for the embedded one with --embedded", why))
		return
	}
	where := "run starts it"
	if at, found := devbroker.Find(ctx, a.settings.BrokerData); found {
		where = "it runs at " + at.Address
	}
	f.ok("broker", "the embedded one, in %s; %s", a.settings.BrokerData, where)
	f.ok("topics", "run makes them on the embedded broker")
}

// checkTopics says which topics there are; one that we may not see is a matter of
// rights.
func checkTopics(ctx context.Context, f *findings, client *kafka.Client, plan *driver.Plan, connect string) {
	names := slices.Compact(slices.Sorted(slices.Values(slices.Concat(needs(plan).Reads, needs(plan).Writes))))
	var topics map[string]kafka.TopicInfo
	err := bounded(ctx, func(ctx context.Context) (err error) {
		topics, err = client.Topics(ctx, names...)
		return err
	})
	if err != nil {
		f.fail("topics", err)
		return
	}
	var there []string
	for _, name := range names {
		var code *kafka.CodeError
		switch err := topics[name].Err; {
		case err == nil:
			there = append(there, fmt.Sprintf("%s (%d partitions)", name, topics[name].Partitions))
		case errors.As(err, &code) && code.Code == kafka.TopicForbidden:
		case errors.As(err, &code) && code.Code == kafka.UnknownTopic:
			f.fail("topics", fmt.Errorf("there is no topic %s; check the name, or make it: ankka-flow topics create %s%s", name, prefixed(connect), name))
		default:
			f.fail("topics", err)
		}
	}
	if len(there) > 0 {
		f.ok("topics", "%s", strings.Join(there, ", "))
	}
}

// prefixed is flags with a space behind them, where there are any.
func prefixed(flags string) string {
	if flags != "" {
		flags += " "
	}
	return flags
}

func checkRights(ctx context.Context, f *findings, client *kafka.Client, plan *driver.Plan) {
	var missing []string
	err := bounded(ctx, func(ctx context.Context) (err error) {
		missing, err = client.MissingRights(ctx, needs(plan))
		return err
	})
	switch {
	case err != nil:
		f.fail("permissions", err)
	case len(missing) > 0:
		f.fail("permissions", errors.New(strings.Join(missing, "\n")))
	default:
		f.ok("permissions", "to read the inlets in their groups and to write the outlets")
	}
}

// needs are the names of a plan, each once.
func needs(plan *driver.Plan) (n kafka.Needs) {
	add := func(to *[]string, name string) {
		if !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for _, in := range plan.Inlets {
		add(&n.Reads, in.Topic)
		add(&n.Groups, in.Group)
	}
	for _, out := range plan.Outlets {
		add(&n.Writes, out.Topic)
	}
	return n
}
