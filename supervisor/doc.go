// Package supervisor is one child process's life: its launch, its three pipes, its wait
// status, and its death.
//
// It decides when a process has ended and what that looks like to a person (Exited,
// LaunchError), whether it can still be reached (liveness), and what may be begun on its
// stdin (input). It holds three tables that belong to the same subject and are pure data:
// ExitCode, StopBudget, Environment.
//
// It must not decide what a message means, when a process is launched again, how long that
// waits, or when it is stopped: those are the core's (package delivery), and the driver
// carries them out. It never exits the program, keeps no global state, and launches nothing
// by itself.
//
// # Death
//
// A process has ended when its wait status says so. An end of file says only that a pipe was
// closed, and its absence only that somebody (a grandchild) holds one. So the order is: the
// wait status is seen but left in place (on Linux WNOWAIT, elsewhere a kernel queue); stdin is
// closed; the readers come to the end of their pipes, for which a grandchild may cost half a
// second; the rest of the group gets SIGKILL, which ends whoever held a pipe and stayed in
// the group; after one second the readers take what lies in the pipes and stop; the status is
// taken; Exited is sent. Until the status is taken the kernel keeps the pid from anybody
// else, so neither the group kill nor Process.Kill can hit a stranger.
//
// We only ever wait for a pid that we know. Where this program is PID 1 every orphan becomes
// its child: the Reaper takes their statuses, one pid after the other, and leaves those of the
// processes that were launched with it alone. It has no goroutine; the owner calls it at SIGCHLD.
//
// # Attached programs
//
// A program that was started by hand, in a debugger say, comes over a Unix socket (Listener)
// and speaks the same frames there (Attached). It is nobody's child: its end is that of the
// connection, no time is taken, and no signal is sent to it.
//
// # Goroutines
//
//	goroutine                  started by  ended by                         awaited by
//	live, on a locked thread   Start       the process's wait status, then  the owner: Events is
//	                                       the end of the four below        closed
//	writeInput (stdin loop)    live        CloseInput, an error of the      live
//	                                       pipe, or live closing it
//	readOutput (stdout loop)   live        the end of stdout, or its read   live (endGroup)
//	                                       deadline a second after the end
//	drainStderr (stderr loop)  live        as readOutput                    live (endGroup)
//	watch (liveness)           live        the wait status                  live
//	the one in endGroup        live        the two readers                  live (endGroup)
//	accept (Listener)          Listen      Listener.Close                   Listener.Close
//	live of an Attached        Take        the end of the connection        the owner: Events is
//	                                                                        closed
//	its writer                 live        the end of the connection        live
//
// live keeps its thread because on Linux the child gets its parent-death signal when the
// thread that launched it ends, and one of Go's threads ends whenever a goroutine that locked
// it returns.
//
// The owner must receive from Events until it is closed. readOutput waits for it, and nothing
// else does: stdin, stderr and liveness go on while the owner is busy.
package supervisor
