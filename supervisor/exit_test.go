package supervisor

import (
	"syscall"
	"testing"
)

func TestCase27_ExitCodes(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome Outcome
		launch  *LaunchError
		exited  *Exited
		want    int
	}{
		{name: "stopped, or done", outcome: Stopped, want: 0},
		{name: "stopped, whatever the process's exit was", outcome: Stopped, exited: &Exited{Code: 3}, want: 0},
		{name: "refused at discovery", outcome: Refused, want: 1},
		{name: "failed, differs", outcome: Failed, want: 1},
		{name: "bad usage or configuration", outcome: Misused, want: 2},
		{name: "no such program", outcome: CannotRun, launch: &LaunchError{Code: 127}, want: 127},
		{name: "a program that cannot be run", outcome: CannotRun, launch: &LaunchError{Code: 126}, want: 126},
		{name: "a second Ctrl-C", outcome: Forced, want: 130},
		{name: "exit-on-failure, exit 42", outcome: ProcessFailed, exited: &Exited{Code: 42}, want: 42},
		{name: "exit-on-failure, exit 1", outcome: ProcessFailed, exited: &Exited{Code: 1}, want: 1},
		{name: "exit-on-failure, exit 0 in mid-stream", outcome: ProcessFailed, exited: &Exited{}, want: 1},
		{name: "exit-on-failure, SIGTERM", outcome: ProcessFailed, exited: &Exited{Code: -1, Signal: syscall.SIGTERM}, want: 143},
		{name: "exit-on-failure, SIGKILL", outcome: ProcessFailed, exited: &Exited{Code: -1, Signal: syscall.SIGKILL}, want: 137},
		{name: "exit-on-failure, a fail or a violation", outcome: StreamFailed, want: 1},
		{name: "a launch that nobody described is no success", outcome: CannotRun, want: 1},
		{name: "an exit that nobody described is no success", outcome: ProcessFailed, want: 1},
		{name: "an unknown outcome is no success", outcome: StreamFailed + 1, want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ExitCode(c.outcome, c.launch, c.exited); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
