// Package group decides a Kafka consumer group's membership: when to join, to
// keep alive, to let go and to leave, and, as the leader, who gets which
// partition. One Machine is one member of one group that reads one topic, as
// each inlet has a group of its own. It speaks the classic protocol with
// Java's encodings, so Java members with the same assignors may share the
// group (KIP-429, KIP-345, KIP-394).
//
// It is pure: no goroutine, clock, IO or randomness. The driver around it
// (package kafka) moves bytes: it sends what the request structs append, hands
// the decoders what came back, and calls Step with the time. It must not judge
// group error codes itself, but for JudgeCommit. This package knows neither
// connections nor record positions, and never commits.
//
// The driver's contract: one goroutine calls Step; every action with an
// Attempt is answered exactly once and within its Timeout; WakeAt is followed
// by Ticked; Released follows Revoke and Suspend; PartitionsChanged comes from
// its own look at the topic, so that a topic that is created, grows or goes is
// noticed (case 54). An answer that belongs to something over changes nothing
// and is counted (R12).
//
// # States
//
//	state               outstanding             leaves it
//	Unjoined            nothing                 Started -> FindingCoordinator
//	FindingCoordinator  FindCoordinator         found -> Joining; otherwise again, 100 ms doubling to 5 s
//	Joining             Join (parked), beats    0 -> Counting (leader) or Syncing; 79 -> again with the id given;
//	                                            25 -> Lost, again without an id; 14 15 16, no answer -> find, again with
//	                                            the same id; 82 -> Fenced; any other code -> Refused, again later
//	Counting            CountPartitions, beats  counted -> Syncing; 27 -> Joining
//	Syncing             Sync (parked), beats    0 -> Entered, then Stable or Draining; 27 22 -> Joining; 25 -> Lost, Joining
//	Stable              beats, FetchOffsets     27, or the topic changed -> Joining (Draining first, with range);
//	                                            22, slept, session over -> Suspend, Draining; 25 -> Lost, Joining
//	Draining            beats                   Released or the deadline (a third of the session) -> Joining
//	Leaving             Leave                   answered, or tried three times -> Left (state Done)
//	Done                nothing                 Started -> FindingCoordinator
//	Fenced              nothing                 never (another process has this group.instance.id)
//
// In every state but the last four a coordinator that moved or is away is
// looked for again and nothing else changes: member id, generation and
// partitions stay until the broker, or the session's end, says otherwise.
//
// # Rebalances
//
// With cooperative-sticky alone (the default) a rebalance touches only what
// moves. The member joins with everything it holds; what the leader takes away
// is missing from the new assignment and nobody else's yet; Revoke drains it
// while heartbeats and commits go on; then the member joins again without it,
// and that generation hands it over. What stays is in Entered.Kept and is never
// interrupted; its commits carry the new generation from Entered on.
//
// With range in the list the group may choose an assignor that knows no
// owners, so everything is suspended before the join and given back by
// Assigned (R7).
//
// The end of a generation that was not agreed with the broker (22, a frozen
// machine, a session over by our own clock) suspends as well, rather than
// losing: as long as the broker then takes the same member id into the next
// generation, nobody had the partitions meanwhile, and ten-minute batches
// survive an outage longer than the session. Where the broker has
// forgotten the member, or two generations passed, they are void.
//
// A session over by our own clock while a join is parked suspends too and the
// join goes on: the broker keeps a member alive while it waits for the others,
// up to the rebalance timeout, which is longer than the session.
//
// # Leaders that do not know
//
// Before JoinGroup v9 a static leader that starts again is answered as a follower and
// nobody watches the topic's growth. So the leader writes into each
// assignment's user data (which Java's assignors ignore) the number of
// partitions that it assigned for and how many it withheld, and every member
// forces a rebalance when that does not change in time. (A static member killed
// between its assignment and its letting go comes back to its old place without a
// rebalance: what it should have let go of would stay with nobody.)
//
// # Not supported
//
// kafka-go's ConsumerGroup as another member: it claims metadata version 1
// and writes version 0, refuses ours, and has no assignor in common. Such a
// member is named by Warned, or the broker refuses one side with 23, told by
// Refused; nothing loops (case 59).
package group
