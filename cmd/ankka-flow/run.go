package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"ankka-flow/cmd/ankka-flow/config"
	"ankka-flow/cmd/ankka-flow/observe"
	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// runFlags is what `run` is told.
type runFlags struct {
	pipeline      string
	topics        []string
	params        []string
	inputs        []string
	descriptor    string
	brokerData    string
	trace         string
	watch         bool
	attach        bool
	watchPaths    []string
	embedded      bool
	untilEnd      bool
	exitOnFailure bool
	metricsPort   int
}

func newRun(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT ...]",
		Short: "Run a streamlet",
		Long: `run launches the command as a child process and speaks the protocol with it over
stdin and stdout. Without --brokers it uses an embedded broker, kept in .ankka-flow/broker.`,
		Example: `  ankka-flow run -- python3 streamlet.py
  ankka-flow run --watch --input in=records.jsonl -- python3 streamlet.py
  ankka-flow run -b kafka:9092 --topic in=orders -- ./streamlet
  ankka-flow run --attach   # then start the program yourself, in a debugger`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.settings.PrintConfig && a.misconfigured == nil {
				_, err := io.WriteString(a.stdout, a.settings.Print())
				return err
			}
			return a.run(cmd.Context(), &f, args)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the first word that is no flag begins the command
	flags.StringVar(&f.pipeline, "pipeline", "", usage("pipeline"))
	flags.StringArrayVar(&f.topics, "topic", nil, usage("topic"))
	flags.StringArrayVar(&f.params, "param", nil, usage("param"))
	flags.StringArrayVar(&f.inputs, "input", nil, usage("input"))
	flags.StringVar(&f.descriptor, "descriptor", "", usage("descriptor"))
	flags.BoolVar(&f.embedded, "embedded", false, usage("embedded"))
	flags.StringVar(&f.brokerData, "broker-data", defaultBrokerData, usage("broker-data"))
	flags.BoolVar(&f.attach, "attach", false, usage("attach"))
	flags.BoolVarP(&f.watch, "watch", "w", false, usage("watch"))
	flags.StringArrayVar(&f.watchPaths, "watch-path", nil, usage("watch-path"))
	flags.BoolVar(&f.untilEnd, "until-end", false, usage("until-end"))
	flags.BoolVar(&f.exitOnFailure, "exit-on-failure", false, usage("exit-on-failure"))
	flags.IntVar(&f.metricsPort, "metrics-port", defaultMetricsPort, usage("metrics-port"))
	flags.Bool(config.PrintConfig, false, usage(config.PrintConfig))
	flags.StringVar(&f.trace, "trace", "", usage("trace"))
	return cmd
}

// run puts a run together and waits for its end.
func (a *app) run(ctx context.Context, f *runFlags, args []string) error {
	settings, err := f.settings(a.settings, a.misconfigured, args)
	if err != nil {
		return err
	}
	timing := timingOf(a.settings)
	ctx, cancel := context.WithCancel(ctx)
	stops, reloads := make(chan string), make(chan string)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	sent := &signals{log: a.log, from: a.signals, stops: stops, force: cancel}
	sent.watch(ctx, &watchers)
	reaper := reapOrphans(ctx, &watchers)

	broker, err := a.openRunBroker(ctx, f, settings, timing)
	if err != nil {
		return err
	}
	defer broker.close()
	broker.embedded.whenLost(cancel)
	seen, err := openObserving(f.metricsPort, a.log)
	if err != nil {
		return err
	}
	defer seen.close()
	seen.dir = a.settings.StateDir
	tracer, err := openTrace(f.trace)
	if err != nil {
		return err
	}
	defer tracer.close()

	cfg := driver.Config{
		Core: timing.core(a.settings), Declared: settings.declared, Broker: broker,
		Command: strings.Join(args, " "), Supervisor: supervisorName(), Logger: a.log,
		Stops: stops, Reloads: reloads, StallAfter: timing.stall, Observer: seen.watch,
		ReadyText: seen.readyText(settings.watch.paths),
	}
	if f.attach {
		cfg.Core.Attach, cfg.Command = true, attachedProgram
	}
	output := newProcessOutput(a, args)
	cfg.Planned = func(p *driver.Plan) { output.rename(p.Streamlet) }
	cfg.Detail = output.detail
	opts := supervisor.Options{Stderr: output.line, Trace: tracer.frame, ProcessTimeout: timing.process, Reaper: reaper}
	cfg.Launch = a.launcher(args, opts, sent)
	if f.attach {
		listener, err := a.listen(reloads)
		if err != nil {
			return err
		}
		defer listener.Close()
		cfg.Launch = attacher(listener, opts)
	}
	breakRule(&cfg)
	d, err := driver.New(cfg)
	if err != nil {
		return err
	}
	if f.watch {
		watchFiles(ctx, &watchers, reloads, settings.watch, a.log)
	}
	if f.untilEnd {
		broker.untilEnd(ctx, &watchers, stops)
	}
	seen.start(ctx, d, broker, observe.Commands{Process: cfg.Command, Connect: a.connectFlags(broker.embedded)})
	a.showLive(ctx, &watchers, d)
	result := d.Run(ctx)
	return a.ended(broker, result)
}

// launcher starts the process of a run.
func (a *app) launcher(args []string, opts supervisor.Options, sent *signals) func(release func([]byte)) (driver.Process, error) {
	env := supervisor.Environment(os.Environ(), a.settings.Hidden)
	return func(release func([]byte)) (driver.Process, error) {
		opts.Release = release
		p, err := supervisor.Start(supervisor.Command{Args: args, Env: env}, opts)
		if err != nil {
			return nil, err // not p: a nil *Process would be a Process that is not nil
		}
		sent.child.Store(p)
		return p, nil
	}
}

// ended says how a run ended, as far as that was not said.
func (a *app) ended(broker *runBroker, result driver.Result) error {
	if err := broker.embedded.failure(); err != nil {
		return err
	}
	if result.Code == 0 {
		a.log.Info(orElse(result.Reason, "everything is committed"), "event", "stopped")
		return nil
	}
	if !result.Said {
		a.log.Error(orElse(result.Reason, "failed"), "event", "failed")
	}
	return &exitError{code: result.Code}
}

// runSettings is what the flags of run come to.
type runSettings struct {
	declared driver.Declared
	// inputs are the parsed files of --input, by inlet.
	inputs map[string]*inputFile
	watch  watched
}

// settings reads the flags and everything they name. Every problem is in the
// error.
func (f *runFlags) settings(c *config.Settings, misconfigured error, args []string) (*runSettings, error) {
	problems := []error{misconfigured, embeddedAsked(c), f.command(args)}
	s := &runSettings{inputs: map[string]*inputFile{}, declared: declared(c)}
	for _, inlet := range sortedKeys(s.declared.Inputs) {
		file, err := readInput(s.declared.Inputs[inlet])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", c.Ports[inlet].Where, inlet, err))
		}
		s.inputs[inlet] = file
	}
	if f.descriptor != "" {
		deployed, err := readDescriptor(f.descriptor)
		if err != nil {
			problems = append(problems, fmt.Errorf("--descriptor: %w", err))
		}
		s.declared.Deployed = deployed
	}
	if f.watch {
		watch, err := watchedPaths(f.watchPaths, args)
		if err != nil {
			problems = append(problems, err)
		}
		s.watch = watch
	}
	if err := errors.Join(problems...); err != nil {
		return nil, misuse("%w", err)
	}
	return s, nil
}

// command judges what stands behind the flags.
func (f *runFlags) command(args []string) error {
	switch {
	case f.attach && len(args) > 0:
		return fmt.Errorf("--attach launches nothing, but there is the command %q; start it by hand in another terminal, or leave --attach out", strings.Join(args, " "))
	case f.attach && f.watch:
		return errors.New("--attach and --watch: you start the program yourself, so there is nothing to start again; leave one of them out")
	case f.attach || len(args) > 0:
		return judgeCommand(args)
	}
	return errors.New("run needs the command of a streamlet: ankka-flow run -- python3 streamlet.py")
}

func readDescriptor(path string) (*wire.Descriptor, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := wire.ParseDescriptorJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func supervisorName() string {
	version, _ := buildVersion()
	return "ankka-flow " + version
}

// core is the core's configuration.
func (t *timing) core(s *config.Settings) delivery.Config {
	budget := supervisor.NewStopBudget(t.stop)
	return delivery.Config{
		ReconnectMax: t.reconnectMax, DiscoveryTimeout: t.discovery, ProcessTimeout: t.process, BatchTimeout: t.batch,
		ExitOnFailure: s.ExitOnFailure, Watch: s.Watch, MaxRecords: s.MaxRecords, MaxBytes: s.MaxBytes, Batches: s.Batches,
		Stop: delivery.StopBudget{
			Process: budget.Process, Writes: budget.Commit, Terminate: budget.Terminate, Kill: budget.Kill, Exit: budget.Exit,
		},
	}
}
