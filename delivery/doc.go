// Package delivery is the pure core of ankka-flow: it decides what is
// delivered, written, committed, launched and ended, and when. Events go into
// Core.Step, actions come out; the driver (delivery/driver) carries them out
// and tells what became of them.
//
// It starts no goroutine, reads no clock, does no IO and draws no random
// number; it imports no context, sync, io, os, net, log or rand, and of time
// only Duration and its units (imports_test.go). It never sees a record: it
// counts records, and knows batches by their ids.
//
// # The rules
//
// Code and tests quote them; rules_test.go fails when one here has no test.
//
//   - R1: offsets of a batch are committed only when every emit of it is
//     confirmed by the broker.
//   - R2: batches of a partition are written and committed in the order read.
//     When one is not written, nothing behind it is committed.
//   - R3: at most one batch of a partition is with the process, from its
//     Deliver to its answer or the process's end, also when it is void.
//   - R4: a failed or discarded batch commits nothing and its emits are
//     dropped. Redelivery begins at the last commit, or behind what is acked
//     and still settles.
//   - R5: nothing is skipped but by an ack.
//   - R6: emits keep their order. (Which partition they go to is the
//     producer's.)
//   - R7: a batch whose partition is taken away is void, and that is no
//     failure. Between two generations it is suspended, and goes on where the
//     next one gives the partition back between committed and confirmed.
//   - R8: bytes cross unchanged. Here: what is held and what is delivered is
//     named by id, and never looked at.
//   - R9: after an unsettled write nothing is written before the epoch is
//     raised, and the epoch is raised when no write runs.
//   - R10: what is with the process and what is held is bounded, and the bound
//     is backpressure or a named failure.
//   - R11: a partition never jumps: a start that was looked up is committed
//     before the first delivery, an offset outside the log blocks.
//   - R12: an event of something that is over changes nothing and is counted.
//     Equal events give equal actions.
//
// # A partition
//
// Its slots: P, with the process or acked and waiting; W, being written; owed,
// void and not answered by the process. Its offsets: K committed <= C confirmed
// <= position.
//
//	state      event            what follows
//	lost       assigned         owned, position = K = C = offset; R11: a start
//	                            that was looked up is committed first
//	owned      (room)           Deliver, where P and owed are empty, no write of
//	                            W is unknown, the gate is open, credit is left
//	           emitted          Hold
//	           acked            W empty: W = P, Write; else P waits, acked, and
//	                            nothing new is delivered
//	           written          C = end of W, W = acked P, commit C
//	           refused          the stream fails and accuses; the acked P behind
//	                            it is void, position = C
//	           unsettled        the same, accusing nobody; the epoch is raised
//	           committed        K = offset, the stall ends
//	           stream failed    unacked P void, position = its first; W, acked P settle
//	           suspended        suspended
//	           revoked          revoking: unacked P void; W and acked P settle
//	revoking   settled or late  Release, lost
//	suspended                   no Deliver, no Write, no Commit; acks and emits
//	                            are held, W runs on
//	           no write runs    Release without partitions: the inlet may rejoin
//	           assigned (R7)    owned, commit C; otherwise lost, or owned afresh
//	any        lost             lost: P void, W void, cancelled and awaited
//	void       answered, withdrawn, exited: owed is empty, Seek to the position
//
// A write that runs is always awaited, also when it is void: until it is
// answered nothing newer of the partition may be written, though it may have
// been lost and come back meanwhile.
//
// The gate is open, or waiting until a time (an oversized record, a convict's
// next try). While one partition is on trial, nothing is delivered to others.
//
// # Poison
//
// A failure accuses the partitions whose batch it may have been (charge.go). One
// alone is convicted; several are tried, one at a time and alone with the process
// (trial.go). A convict gets one record at a time until it is past what failed,
// and waits by itself; once its record is known, by what its failures cost the
// others, so that beyond three seconds that is a tenth of their time (convict.go).
//
// # The conversation
//
//	Down         wait over: Launch where there is no process, or Discover
//	Discovering  good spec, epoch raised: Begin, Running. Bad: Refuse, Exit 1.
//	             Deadline: Kill, Down
//	Running      failure, process fit: Stop(abandon), Ending. Unfit: Kill, Down.
//	             Stop asked for or reload: Stop(finish), Stopping
//	Ending       stopped: Down. Exit or deadline: Kill, Down, the wait doubles
//	Stopping     acks count. stopped, failure, deadline: Down; then the
//	             supervisor's stop settles, closes and exits, or the reload
//	             launches anew
//
// The stop lies across: finishing, settling, closing, each with its time in
// Config.Stop.
//
// # Order within a Step
//
// What is due by the clock comes first, then the event, then what has become
// possible: discovery, Deliver, then the Writes, then Commits. So
// the next batch goes out before the last one's emits are written.
package delivery
