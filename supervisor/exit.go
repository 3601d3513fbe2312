package supervisor

import "syscall"

// Outcome says why the supervisor itself ends. ExitCode turns it into the number the
// shell sees.
type Outcome int

// The outcomes of a run. Each is documented with who decides it.
const (
	// Stopped: asked to stop and did, or done (--until-end). Also when the budget ran
	// out before everything was committed: the rest is delivered again, nothing is lost.
	Stopped Outcome = iota
	// Refused: discovery was refused; the descriptor differs or the version does not fit.
	Refused
	// Failed: something else that can never work, for example `descriptor --check`
	// finding a difference, or a command that could not do what it was asked for.
	Failed
	// Misused: a bad flag, bad usage, or a configuration with problems.
	Misused
	// CannotRun: the program could not be launched, at the first launch (later ones are
	// tried again after the backoff) or under --exit-on-failure at any.
	CannotRun
	// Forced: a second Ctrl-C.
	Forced
	// ProcessFailed: --exit-on-failure, and what failed was the process's exit.
	ProcessFailed
	// StreamFailed: --exit-on-failure, and what failed was not an exit: a `fail`, a
	// violation, a refused write.
	StreamFailed
)

// exitCodes is the one table of our exit codes. Two rows take their
// code from the process: -1 marks them.
var exitCodes = [...]int{
	Stopped:       0,
	Refused:       1,
	Failed:        1,
	Misused:       2,
	CannotRun:     -1, // 126 or 127, as the LaunchError says
	Forced:        130,
	ProcessFailed: -1, // the process's own, 128 + n for a signal, 1 for 0
	StreamFailed:  1,
}

// ExitCode is the number to exit with. launch is read for CannotRun only and exited for
// ProcessFailed only; both may be nil otherwise, and a nil where one is needed gives 1,
// never 0: a failure must not look like success.
func ExitCode(o Outcome, launch *LaunchError, exited *Exited) int {
	switch {
	case o == CannotRun && launch != nil:
		return launch.Code
	case o == ProcessFailed && exited != nil:
		return processCode(exited.Code, exited.Signal)
	case o < 0 || int(o) >= len(exitCodes) || exitCodes[o] < 0:
		return 1
	}
	return exitCodes[o]
}

func processCode(code int, signal syscall.Signal) int {
	switch {
	case signal != 0:
		return 128 + int(signal)
	case code == 0:
		// An exit with 0 in the middle of a stream is a failure (PROTOCOL.md, section 3).
		return 1
	}
	return code
}
