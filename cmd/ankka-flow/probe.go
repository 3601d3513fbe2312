package main

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ankka-flow/cmd/ankka-flow/observe"
)

func newProbe(a *app) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "probe ready|live",
		Short: "Ask whether the supervisor is ready or alive, for probes that run a command",
		Long: `probe exits with 0 when it is so, and with 1 and a line on stderr when it is not.

ready: the conversation with the streamlet runs and every inlet is subscribed.
live: the supervisor's loop turns. It says nothing of the streamlet or of Kafka: a new
supervisor would mend neither.`,
		Example: `  ankka-flow probe ready
  ankka-flow probe live --state-dir .ankka-flow/run/cart-router`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "ready" && args[0] != "live" {
				return misuse("probe needs one word, ready or live")
			}
			if dir == "" {
				found, err := findStateDir()
				if err != nil {
					return err
				}
				dir = found
			}
			file := observe.AliveFile
			if args[0] == "ready" {
				file = observe.ReadyFile
			}
			return observe.Probe(dir, file, time.Now())
		},
	}
	cmd.Flags().StringVar(&dir, "state-dir", "", usage("state-dir"))
	return cmd
}

// findStateDir is the state directory of the one supervisor here. One that was
// killed leaves its files behind, and counts only where there is no other: then
// Probe says that it is dead.
func findStateDir() (string, error) {
	if dir := stateDir(""); dir != "" {
		return dir, nil
	}
	files, err := filepath.Glob(filepath.Join(runDir, "*", observe.AliveFile))
	if err != nil {
		return "", err
	}
	var alive, dead []string
	for _, file := range files {
		dir := filepath.Dir(file)
		if observe.Probe(dir, observe.AliveFile, time.Now()) == nil {
			alive = append(alive, dir)
		} else {
			dead = append(dead, dir)
		}
	}
	switch {
	case len(alive) == 1:
		return alive[0], nil
	case len(alive) > 1:
		return "", misuse("several supervisors run here; name one with --state-dir: %s", strings.Join(alive, ", "))
	case len(dead) > 0:
		return dead[0], nil
	}
	return "", errors.New("no supervisor runs in this directory")
}
