package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

func newDescriptor(a *app) *cobra.Command {
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "descriptor [flags] -- COMMAND [ARGUMENT ...]",
		Short: "Print a streamlet's descriptor, write it to a file or check a file against it",
		Example: `  ankka-flow descriptor -- python3 streamlet.py
  ankka-flow descriptor -o descriptor.json --check -- python3 streamlet.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return misuse("descriptor needs the command of a streamlet: ankka-flow descriptor -- python3 streamlet.py")
			case check && out == "":
				return misuse("--check needs the file to check: -o FILE")
			}
			if err := judgeCommand(args); err != nil {
				return misuse("%w", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), stopSignals()...)
			defer stop()
			d, err := a.discover(ctx, args, timingOf(a.settings))
			if err != nil {
				return err
			}
			return a.putDescriptor(d, out, check)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write instead of stdout")
	cmd.Flags().BoolVar(&check, "check", false, "exit with 1 when the file differs, instead of writing it")
	return cmd
}

func (a *app) putDescriptor(d *wire.Descriptor, out string, check bool) error {
	text := d.CanonicalJSON()
	switch {
	case out == "":
		_, err := a.stdout.Write(text)
		return err
	case !check:
		return os.WriteFile(out, text, 0o644)
	}
	have, err := os.ReadFile(out)
	if err != nil {
		return fmt.Errorf("checking the descriptor: %w", err)
	}
	if bytes.Equal(have, text) {
		return nil
	}
	deployed, err := wire.ParseDescriptorJSON(have)
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	differences := wire.Differences(deployed, d)
	if len(differences) == 0 {
		differences = []string{"the text is not canonical, or another SDK or protocol version wrote it"}
	}
	return fmt.Errorf("%s differs from what the process says; write it again without --check:\n  %s", out, strings.Join(differences, "\n  "))
}

// discover launches a process, asks it to describe itself and ends it.
func (a *app) discover(ctx context.Context, args []string, t *timing) (*wire.Descriptor, error) {
	output := newProcessOutput(a, args)
	p, err := supervisor.Start(
		supervisor.Command{Args: args, Env: supervisor.Environment(os.Environ(), a.settings.Hidden)},
		supervisor.Options{Stderr: output.line},
	)
	if err != nil {
		return nil, launchExit(err)
	}
	frame, err := wire.Append(nil, wire.Discover{
		Protocol: wire.Version, Supervisor: supervisorName(), MaxFrameBytes: wire.MaxFrame, MaxRecordBytes: wire.MaxRecord,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding discover: %w", err)
	}
	p.Control(frame)
	ctx, cancel := context.WithTimeoutCause(ctx, t.discovery, errors.New(delivery.NoAnswer(t.discovery)))
	defer cancel()
	slow := time.AfterFunc(driver.SlowDiscovery, func() {
		a.log.Info(driver.NoAnswerYet(t.discovery), "event", "process")
	})
	d, err := awaitSpec(ctx, p)
	slow.Stop()
	p.CloseInput()
	kill := time.AfterFunc(processGrace, p.Kill)
	defer kill.Stop()
	if err != nil {
		p.Kill()
	}
	for range p.Events() { // until Exited, so that nothing of it is left
	}
	return d, err
}

// processGrace is how long a process may take to exit once its stdin is closed.
const processGrace = 5 * time.Second

func awaitSpec(ctx context.Context, p *supervisor.Process) (*wire.Descriptor, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case ev := <-p.Events():
			switch e := ev.(type) {
			case supervisor.Received:
				if spec, ok := e.Message.(wire.Spec); ok {
					return judged(&spec.Descriptor)
				}
			case supervisor.Broken:
				return nil, e.Err
			case supervisor.Exited:
				return nil, fmt.Errorf("the process ended before it answered discovery: %s%s", e, driver.MissingSDK(&e))
			}
		}
	}
}

func judged(d *wire.Descriptor) (*wire.Descriptor, error) {
	if err := wire.CheckVersion(d.ProtocolVersion); err != nil {
		return nil, err
	}
	if problems := d.Validate(); len(problems) > 0 {
		return nil, fmt.Errorf("the descriptor has problems:\n  %s", strings.Join(problems, "\n  "))
	}
	return d, nil
}

// launchExit gives a program that cannot be run its exit code.
func launchExit(err error) error {
	var launch *supervisor.LaunchError
	if errors.As(err, &launch) {
		return &exitError{code: supervisor.ExitCode(supervisor.CannotRun, launch, nil), err: err}
	}
	return err
}
