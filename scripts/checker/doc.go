// Package checker judges streamlets by what is in Kafka's logs alone: the
// inlet's, the outlets' and the group's commits. It knows nothing of the
// program that wrote them, reads with franz-go, and is shared by the soak and
// by the tests that kill things.
//
// Check is pure. Read and ReadCommits fetch the evidence; they start no
// goroutine of their own.
//
// # What it decides
//
// Every record of an inlet's log calls for certain records on the outlets
// (Outlet.Expect). Then, for each stream:
//
//   - bytes: each record of an outlet was due there, with exactly this key,
//     value and headers, on the partition of its key (R6, R8).
//   - order: per key, after repeats are removed, the records come in the order
//     of the inlet (R2, R6). Where records come again, they come in order too: a
//     producer has itself written the record before just before, or somebody had
//     committed it (R4).
//   - lost: every record is there at the end; skipped: one is missing although
//     a commit says that it is done (R5).
//   - early: no commit was taken before everything due for the offsets before it
//     had been appended (R1).
//   - back: a group's commit never moves back; beyond: nor behind the log's end.
//   - again: nothing is repeated after its commit (R4), with the exception below.
//
// Repeats before the commit are what a redelivery leaves, and are only counted.
//
// # Time
//
// Which of an output and a commit came first is read from the brokers' clocks:
// the outlets' topics must have message.timestamp.type=LogAppendTime, so that a
// record has the millisecond in which its leader appended it, and a commit has
// the millisecond in which its coordinator took it. All brokers must share one
// clock that is not set back meanwhile; three on one machine do. A correct
// program commits after the answer to its write, so append <= commit holds
// exactly, also in milliseconds. What cannot be seen in logs: a commit in
// the millisecond of the append, or one between the append at the leader and its
// confirmation. The latter is a fault only when the leader's copy is then lost,
// and that is seen as a lost record.
// Commits are compared in the order of their log, which needs no clock. A test
// that sees the requests of an embedded broker gives Commit.Ends instead, which
// is exact, and commits that were only asked for.
//
// # The window without a fence
//
// Between two supervisors Kafka has no fence without transactions: the last
// request of one that was frozen, killed or cut off may be appended after its
// successor has written and committed the same records. This is allowed, and
// counted as late, where all of these hold, and nowhere else:
//
//   - every record of it is a repeat of one that another producer had written
//     before the commit. Within one producer there is a fence, its epoch;
//   - it is one batch in an output partition. The same producer's next batch
//     there, for the same inlet partition, is no late one.
//
// Such a batch stands in the way of no other rule: removing repeats removes it.
package checker
