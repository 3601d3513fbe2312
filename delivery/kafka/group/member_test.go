package group

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// script drives one machine by hand. Each step lists the actions expected, by
// their trace text; WakeAt is left out, and "#n" too, so that a test reads as
// what happens and not as a count of requests.
type script struct {
	t   *testing.T
	m   *Machine
	now time.Duration
	// slot and beat are the attempts of the last such requests.
	slot, beat uint64
	// acts are the last step's.
	acts []Action
	wake time.Duration
}

func newScript(t *testing.T, cfg Config) *script {
	t.Helper()
	cfg.Group, cfg.Topic = "g", "t"
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &script{t: t, m: m}
}

func (s *script) step(ev Event, want ...string) {
	s.t.Helper()
	s.acts = s.m.Step(nil, s.now, ev)
	got := []string{}
	for _, a := range s.acts {
		switch a := a.(type) {
		case WakeAt:
			s.wake = a.At
			continue
		case Heartbeat:
			s.beat = a.Attempt
		default:
			if f := reflect.ValueOf(a).FieldByName("Attempt"); f.IsValid() {
				s.slot = f.Uint()
			}
		}
		words := strings.Fields(a.String())
		if len(words) > 1 && words[1][0] == '#' {
			words = append(words[:1], words[2:]...)
		}
		got = append(got, strings.Join(words, " "))
	}
	if !reflect.DeepEqual(got, append([]string{}, want...)) {
		s.t.Fatalf("at %v %v:\ngot  %q\nwant %q\n%v", s.now, ev, got, want, s.m)
	}
}

// at moves time to d and ticks.
func (s *script) at(d time.Duration, want ...string) {
	s.t.Helper()
	s.now = d
	s.step(Ticked{}, want...)
}

func (s *script) found(want ...string) {
	s.t.Helper()
	s.step(CoordinatorAnswered{s.slot, FindCoordinatorResponse{Node: 1}}, want...)
}

func (s *script) joined(a JoinGroupResponse, want ...string) {
	s.t.Helper()
	if a.Protocol == "" {
		a.Protocol = CooperativeSticky
	}
	s.step(Joined{s.slot, a}, want...)
}

func (s *script) joinCode(code int16, member string, want ...string) {
	s.t.Helper()
	s.step(Joined{s.slot, JoinGroupResponse{ErrorCode: code, Generation: -1, Member: member}}, want...)
}

func share(partitions ...int32) []byte {
	return Assignment{Partitions: []TopicPartitions{{"t", partitions}}}.AppendTo(nil)
}

func (s *script) synced(assignment []byte, want ...string) {
	s.t.Helper()
	s.step(Synced{s.slot, SyncGroupResponse{Assignment: assignment}}, want...)
}

func (s *script) beatCode(code int16, want ...string) {
	s.t.Helper()
	s.step(HeartbeatAnswered{s.beat, code}, want...)
}

// offsets answers every partition asked for with ten times its number.
func (s *script) offsets(want ...string) {
	s.t.Helper()
	var asked []int32
	for _, a := range s.acts {
		if f, ok := a.(FetchOffsets); ok {
			asked = f.Request.Partitions
		}
	}
	s.step(OffsetsFetched{s.slot, offsetsOf(asked)}, want...)
}

func offsetsOf(asked []int32) OffsetFetchResponse {
	t := FetchedTopic{Topic: "t"}
	for _, p := range asked {
		t.Partitions = append(t.Partitions, FetchedOffset{Partition: p, Offset: int64(p) * 10, LeaderEpoch: -1})
	}
	return OffsetFetchResponse{Topics: []FetchedTopic{t}}
}

// lastJoin is the subscription of the last step's join.
func (s *script) lastJoin() Subscription {
	s.t.Helper()
	for _, a := range s.acts {
		if j, ok := a.(Join); ok {
			sub, err := DecodeSubscription(j.Request.Protocols[0].Metadata)
			if err != nil {
				s.t.Fatal(err)
			}
			return sub
		}
	}
	s.t.Fatalf("no join in %v", s.acts)
	return Subscription{}
}

// toStable brings a follower to generation 5 with partitions 0 and 1.
func toStable(t *testing.T, cfg Config) *script {
	t.Helper()
	s := newScript(t, cfg)
	s.step(Started{}, `find-coordinator "g"`)
	if cfg.Instance == "" {
		s.found(`join node=1 member=""`)
		s.joinCode(79, "m", `join node=1 member="m"`)
	} else {
		s.found(`join node=1 member=""`)
	}
	protocol := CooperativeSticky
	if s.m.eager() {
		protocol = Range
	}
	s.joined(JoinGroupResponse{Generation: 5, Member: "m", Leader: "other", Protocol: protocol}, `sync node=1 generation=5 member="m" assignments=0`)
	s.synced(share(0, 1), `entered generation=5 member="m" leader=false kept=[]`, `fetch-offsets node=1 [0 1]`)
	s.offsets(`assigned generation=5 added=[{0 0 -1} {1 10 -1}] all=[0 1] continues=false`)
	return s
}

func TestAMemberJoinsWithAnIDOfItsOwn(t *testing.T) {
	s := toStable(t, Config{})
	if s.m.State() != Stable || s.m.Member() != "m" || s.m.Generation() != 5 {
		t.Error(s.m)
	}
	if node, ok := s.m.Coordinator(); node != 1 || !ok {
		t.Error(node, ok)
	}
}

func TestALeaderAssignsFromFreshMetadata(t *testing.T) {
	s := newScript(t, Config{})
	s.step(Started{}, `find-coordinator "g"`)
	s.found(`join node=1 member=""`)
	mine := s.lastJoin().AppendTo(nil)
	other := Subscription{Topics: []string{"t", "u"}, Generation: -1}.AppendTo(nil)
	s.joined(JoinGroupResponse{Generation: 1, Member: "m", Leader: "m", Members: []JoinedMember{{"m", "", mine}, {"n", "", other}}},
		`count-partitions [t u]`)
	s.step(PartitionsCounted{s.slot, map[string]int32{"t": 2, "u": 2}}, `sync node=1 generation=1 member="m" assignments=2`)
	given := s.acts[0].(Sync).Request.Assignments
	for _, g := range given {
		a, err := DecodeAssignment(g.Assignment)
		n, said := a.note()
		if err != nil || len(a.Partitions) == 0 || said != (g.Member == "m") || said && n != (leaderNote{2, 0}) {
			t.Errorf("%s: %+v, %v", g.Member, a, err)
		}
	}
}

func TestHeartbeatsKeepTheirInterval(t *testing.T) {
	s := toStable(t, Config{})
	if s.wake != 3*time.Second {
		t.Fatalf("woken at %v", s.wake)
	}
	s.at(2999 * time.Millisecond)
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.at(6 * time.Second) // never two at once
	s.beatCode(0, `heartbeat node=1 generation=5`)
	for session, want := range map[time.Duration]time.Duration{time.Second: 100 * time.Millisecond, 6 * time.Second: 400 * time.Millisecond, time.Hour: 3 * time.Second} {
		if got := toStable(t, Config{SessionTimeout: session}).m.heartbeatInterval(); got != want {
			t.Errorf("session %v: %v, want %v", session, got, want)
		}
	}
}

// Cooperative: what stays is not touched; what goes is drained under
// heartbeats, then let go of, and only then handed over.
func TestR7_OnlyWhatMovesIsRevoked(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `join node=1 member="m"`)
	if j := s.lastJoin(); j.Generation != 5 || !reflect.DeepEqual(j.Owned, []TopicPartitions{{"t", []int32{0, 1}}}) {
		t.Errorf("claims %+v", j)
	}
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(0, 2), `entered generation=6 member="m" leader=false kept=[0]`, `revoke drain=1 [1] deadline=18s`, `fetch-offsets node=1 [2]`)
	s.offsets(`assigned generation=6 added=[{2 20 -1}] all=[0 2] continues=true`)
	s.at(6*time.Second, `heartbeat node=1 generation=6`) // the drain goes on
	s.beatCode(27)                                       // a further rebalance waits for it
	s.step(Released{9})                                  // another drain's
	s.step(Released{1}, `dropped [1]`, `join node=1 member="m"`)
	if j := s.lastJoin(); !reflect.DeepEqual(j.Owned, []TopicPartitions{{"t", []int32{0, 2}}}) {
		t.Errorf("claims %+v", j)
	}
	if s.m.Stale() != 1 {
		t.Errorf("stale %d", s.m.Stale())
	}
}

func TestCase44_ADrainIsBounded(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(0), `entered generation=6 member="m" leader=false kept=[0]`, `revoke drain=1 [1] deadline=18s`,
		`assigned generation=6 added=[] all=[0] continues=true`)
	for at := 6 * time.Second; at < 18*time.Second; at += 3 * time.Second {
		s.at(at, `heartbeat node=1 generation=6`)
		s.beatCode(0)
	}
	s.at(18*time.Second, `dropped [1]`, `join node=1 member="m"`)
	s.step(Released{1}) // too late, and counted
	if s.m.Stale() != 1 {
		t.Errorf("stale %d", s.m.Stale())
	}
}

// Range: everything is suspended before the join, heartbeats go on, and the
// same member in the next generation goes on with what it gets back.
func TestR7_RangeSuspendsBeforeJoining(t *testing.T) {
	s := toStable(t, Config{Assignors: []string{Range, CooperativeSticky}})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `suspend drain=1 [0 1] deadline=18s the group rebalances`)
	s.at(6*time.Second, `heartbeat node=1 generation=5`)
	s.step(Released{1}, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other", Protocol: Range}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(1, 2), `entered generation=6 member="m" leader=false kept=[]`, `dropped [0]`, `fetch-offsets node=1 [1 2]`)
	s.offsets(`assigned generation=6 added=[{1 10 -1} {2 20 -1}] all=[1 2] continues=true`)
}

func TestR7_AMissedGenerationDoesNotContinue(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(22, `suspend drain=1 [0 1] deadline=18s ILLEGAL_GENERATION: the group went on without this member (22)`)
	s.at(6 * time.Second) // heartbeats would only be refused
	s.step(Released{1}, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 7, Member: "m", Leader: "other"}, `sync node=1 generation=7 member="m" assignments=0`)
	s.synced(share(0, 1), `entered generation=7 member="m" leader=false kept=[]`, `fetch-offsets node=1 [0 1]`)
	s.offsets(`assigned generation=7 added=[{0 0 -1} {1 10 -1}] all=[0 1] continues=false`)
}

// A rebalance between Entered and Assigned: the chain of generations holds.
func TestR7_AChainOfGenerationsContinues(t *testing.T) {
	s := toStable(t, Config{Assignors: []string{Range}})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `suspend drain=1 [0 1] deadline=18s the group rebalances`)
	s.step(Released{1}, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other", Protocol: Range}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(0), `entered generation=6 member="m" leader=false kept=[]`, `dropped [1]`, `fetch-offsets node=1 [0]`)
	late := s.slot
	s.at(6*time.Second, `heartbeat node=1 generation=6`)
	s.beatCode(27, `join node=1 member="m"`)
	join := s.slot
	s.step(OffsetsFetched{late, offsetsOf([]int32{0})}) // generation 6 is over
	s.slot = join
	s.joined(JoinGroupResponse{Generation: 7, Member: "m", Leader: "other", Protocol: Range}, `sync node=1 generation=7 member="m" assignments=0`)
	s.synced(share(0, 1), `entered generation=7 member="m" leader=false kept=[]`, `fetch-offsets node=1 [0 1]`)
	s.offsets(`assigned generation=7 added=[{0 0 -1} {1 10 -1}] all=[0 1] continues=true`)
}

func TestAnUnknownMemberLosesEverything(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(25, `lost [0 1]: UNKNOWN_MEMBER_ID: the group no longer has this member (25)`, `join node=1 member=""`)
	if j := s.lastJoin(); j.Generation != -1 || j.Owned != nil {
		t.Errorf("claims %+v", j)
	}
	s.step(CommitAnswered{5, "m", 25}) // the same news again, of the life before
	if s.m.Stale() != 1 {
		t.Errorf("stale %d", s.m.Stale())
	}
}

// The offsets of the topic before mean nothing in the one made again.
func TestR11_ATopicMadeAgainLosesEverything(t *testing.T) {
	s := toStable(t, Config{})
	s.step(TopicMadeAgain{}, `lost [0 1]: the topic was deleted and made again`, `join node=1 member="m"`)
	if j := s.lastJoin(); j.Generation != -1 || j.Owned != nil {
		t.Errorf("claims %+v", j)
	}
	s.step(TopicMadeAgain{}) // nothing is held: the commits are read later anyway
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other", Protocol: CooperativeSticky}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(0, 1), `entered generation=6 member="m" leader=false kept=[]`, `fetch-offsets node=1 [0 1]`)
	s.step(TopicMadeAgain{}, `join node=1 member="m"`) // what is being read may be of the old one
}

// A commit's code is news as good as a heartbeat's.
func TestACommitEndsTheGeneration(t *testing.T) {
	s := toStable(t, Config{})
	s.step(CommitAnswered{4, "m", 22})
	s.step(CommitAnswered{5, "m", 0})
	s.step(CommitAnswered{5, "m", 30}) // the stream's matter
	s.step(CommitAnswered{5, "m", 27}, `join node=1 member="m"`)
}

func TestAMovedCoordinatorChangesNothingElse(t *testing.T) {
	for _, code := range []int16{14, 15, 16} {
		s := toStable(t, Config{})
		s.at(3*time.Second, `heartbeat node=1 generation=5`)
		s.beatCode(code)
		s.at(3100*time.Millisecond, `find-coordinator "g"`)
		s.step(CoordinatorAnswered{s.slot, FindCoordinatorResponse{ErrorCode: 15, Node: -1}})
		s.at(3300*time.Millisecond, `find-coordinator "g"`)
		s.step(RequestFailed{s.slot, true, "refused"})
		s.at(3700*time.Millisecond, `find-coordinator "g"`)
		s.step(CoordinatorAnswered{s.slot, FindCoordinatorResponse{Node: 2}}, `heartbeat node=2 generation=5`)
		s.beatCode(0)
		if s.m.State() != Stable || s.m.Member() != "m" {
			t.Error(s.m)
		}
	}
}

func TestLostAnswersKeepTheMemberID(t *testing.T) {
	s := newScript(t, Config{})
	s.step(Started{}, `find-coordinator "g"`)
	s.found(`join node=1 member=""`)
	s.joinCode(79, "m", `join node=1 member="m"`)
	lost := s.slot
	s.step(RequestFailed{s.slot, false, "EOF"})
	s.at(100*time.Millisecond, `find-coordinator "g"`)
	s.found(`join node=1 member="m"`)
	join := s.slot
	s.slot = lost
	s.joined(JoinGroupResponse{Generation: 5, Member: "m", Leader: "other"}) // the lost one after all
	s.slot = join
	s.joined(JoinGroupResponse{Generation: 5, Member: "m", Leader: "other"}, `sync node=1 generation=5 member="m" assignments=0`)
	s.step(RequestFailed{s.slot, false, "EOF"})
	s.at(200*time.Millisecond, `find-coordinator "g"`)
	s.found(`sync node=1 generation=5 member="m" assignments=0`, `heartbeat node=1 generation=5`)
	if s.m.Stale() != 1 {
		t.Errorf("stale %d", s.m.Stale())
	}
}

// No heartbeat for a session: suspended, not lost, since nobody else has the
// partitions as long as the broker still knows the member.
func TestR7_ASessionOverByOurClockSuspends(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.step(RequestFailed{s.beat, false, "EOF"})
	s.at(3100*time.Millisecond, `find-coordinator "g"`)
	s.at(44999 * time.Millisecond)
	s.at(45*time.Second, `suspend drain=1 [0 1] deadline=1m0s no heartbeat was answered for the session timeout`)
	s.at(60 * time.Second) // the drain is over; the search goes on
	s.found(`join node=1 member="m"`)
	s.joinCode(25, "", `lost [0 1]: UNKNOWN_MEMBER_ID: the group no longer has this member (25)`)
}

// A parked join may take longer than a session; meanwhile nothing may start.
func TestR7_ASessionOverWhileJoiningSuspends(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `join node=1 member="m"`)
	s.at(6*time.Second, `heartbeat node=1 generation=5`) // not answered
	s.at(48*time.Second, `suspend drain=0 [0 1] deadline=48s no heartbeat was answered for the session timeout`)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(0, 1), `entered generation=6 member="m" leader=false kept=[]`, `fetch-offsets node=1 [0 1]`)
	s.offsets(`assigned generation=6 added=[{0 0 -1} {1 10 -1}] all=[0 1] continues=true`)
}

// parkedJoin is a member whose join waits at the broker for the others.
func parkedJoin(t *testing.T) *script {
	t.Helper()
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `join node=1 member="m"`)
	s.at(6*time.Second, `heartbeat node=1 generation=5`)
	return s
}

// Heartbeats beside a parked join keep the session, so that what goes on is
// not suspended, however long the others take.
func TestR7_HeartbeatsGoOnBesideAParkedJoin(t *testing.T) {
	s := parkedJoin(t)
	for at := 9 * time.Second; at <= 60*time.Second; at += 3 * time.Second {
		s.beatCode(27)
		s.at(at, `heartbeat node=1 generation=5`)
	}
	s.beatCode(22) // the rebalance is over; the join's answer is on its way
	s.at(63 * time.Second)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
}

// The heartbeat beside a join is overtaken by the join's answer, and then has
// nothing to say about the new generation.
func TestR12_AHeartbeatBesideAJoinSaysNothingOfTheNextGeneration(t *testing.T) {
	for _, code := range []int16{22, 25, 27} {
		s := parkedJoin(t)
		s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
		stale := s.m.Stale()
		s.beatCode(code)
		if s.m.Stale() != stale+1 {
			t.Errorf("code %d counted", code)
		}
	}
}

// A broker that does not know the member any more answers its join never.
func TestAJoinThatNobodyWillAnswerIsSentAgain(t *testing.T) {
	s := parkedJoin(t)
	s.beatCode(25, `lost [0 1]: UNKNOWN_MEMBER_ID: the group no longer has this member (25)`, `join node=1 member=""`)

	s = parkedJoin(t)
	s.beatCode(16)
	s.at(s.wake, `find-coordinator "g"`)
	s.found(`join node=1 member="m"`)

	s = parkedJoin(t)
	s.step(RequestFailed{s.beat, false, "i/o timeout"})
	s.at(s.wake, `find-coordinator "g"`)
	s.found(`join node=1 member="m"`)
}

// A coordinator that was away for long and has forgotten the member: the first
// answer ends the long waits.
func TestCase48_AnAnswerEndsTheWaitsOfAnOutage(t *testing.T) {
	s := newScript(t, Config{})
	s.step(Started{}, `find-coordinator "g"`)
	for range 10 {
		s.step(RequestFailed{s.slot, false, "connection refused"})
		s.at(s.wake, `find-coordinator "g"`)
	}
	s.found(`join node=1 member=""`)
	s.joinCode(79, "m", `join node=1 member="m"`)
	s.joinCode(25, "")
	s.at(s.now+100*time.Millisecond, `join node=1 member=""`)
}

func TestSleepingLongerThanAThirdOfASessionEndsTheGeneration(t *testing.T) {
	s := toStable(t, Config{})
	s.now = 20 * time.Second
	s.step(Slept{15 * time.Second}, `heartbeat node=1 generation=5`)
	s.step(Slept{15*time.Second + 1}, `suspend drain=1 [0 1] deadline=35s the supervisor did not run for 15.000000001s`)
	s.step(Released{1}, `join node=1 member="m"`)
}

// Slept in the middle of a revocation: what was being drained is suspended
// with the rest, and still claimed, for the core may still be writing it.
func TestSleepingDuringADrainClaimsEverything(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(0), `entered generation=6 member="m" leader=false kept=[0]`, `revoke drain=1 [1] deadline=18s`,
		`assigned generation=6 added=[] all=[0] continues=true`)
	s.step(Slept{16 * time.Second}, `suspend drain=2 [0 1] deadline=18s the supervisor did not run for 16s`)
	s.step(Released{2}, `join node=1 member="m"`)
	if j := s.lastJoin(); !reflect.DeepEqual(j.Owned, []TopicPartitions{{"t", []int32{0, 1}}}) {
		t.Errorf("claims %+v", j)
	}
}

func TestAClaimNotGrantedAfterASuspensionIsLetGoOf(t *testing.T) {
	s := toStable(t, Config{})
	s.step(Slept{16 * time.Second}, `suspend drain=1 [0 1] deadline=15s the supervisor did not run for 16s`)
	s.step(Released{1}, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
	s.synced(share(0), `entered generation=6 member="m" leader=false kept=[]`, `dropped [1]`, `fetch-offsets node=1 [0]`)
	s.offsets(`assigned generation=6 added=[{0 0 -1}] all=[0] continues=true`, `join node=1 member="m"`)
}

func TestAFencedInstanceIsFatal(t *testing.T) {
	s := toStable(t, Config{Instance: "cart-0"})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(82, `lost [0 1]: FENCED_INSTANCE_ID: another process uses this group.instance.id (82)`, `fatal code=82`)
	s.at(time.Hour)
	if s.m.State() != Fenced {
		t.Error(s.m)
	}
	s.step(StopAsked{}, `left`)
}

func TestStopping(t *testing.T) {
	t.Run("a dynamic member leaves", func(t *testing.T) {
		s := toStable(t, Config{})
		s.step(StopAsked{}, `lost [0 1]: stopped`, `leave node=1 member="m"`)
		s.step(StopAsked{})
		s.step(LeaveAnswered{s.slot, 0}, `left`)
		s.step(Started{}, `find-coordinator "g"`)
	})
	t.Run("a static member stays, so that its next start finds its place", func(t *testing.T) {
		toStable(t, Config{Instance: "cart-0"}).step(StopAsked{}, `lost [0 1]: stopped`, `left`)
	})
	t.Run("a static member leaves when asked to", func(t *testing.T) {
		toStable(t, Config{Instance: "cart-0"}).step(StopAsked{Leave: true}, `lost [0 1]: stopped`, `leave node=1 member="m"`)
	})
	t.Run("a parked join does not hold up the leave", func(t *testing.T) {
		s := toStable(t, Config{})
		s.at(3*time.Second, `heartbeat node=1 generation=5`)
		s.beatCode(27, `join node=1 member="m"`)
		s.step(StopAsked{}, `lost [0 1]: stopped`, `leave node=1 member="m"`)
	})
	t.Run("the first join's answer names the ghost to lay", func(t *testing.T) {
		s := newScript(t, Config{})
		s.step(Started{}, `find-coordinator "g"`)
		s.found(`join node=1 member=""`)
		s.step(StopAsked{})
		s.joinCode(79, "m", `leave node=1 member="m"`)
	})
	t.Run("the first join fails", func(t *testing.T) {
		s := newScript(t, Config{})
		s.step(Started{}, `find-coordinator "g"`)
		s.found(`join node=1 member=""`)
		s.step(StopAsked{})
		s.step(RequestFailed{s.slot, false, "EOF"}, `left`)
	})
	t.Run("a broker that is away", func(t *testing.T) {
		s := toStable(t, Config{})
		s.step(StopAsked{}, `lost [0 1]: stopped`, `leave node=1 member="m"`)
		s.step(RequestFailed{s.slot, false, "EOF"}, `find-coordinator "g"`)
		s.step(RequestFailed{s.slot, true, "refused"})
		s.at(s.wake, `find-coordinator "g"`)
		s.step(RequestFailed{s.slot, true, "refused"}, `left`)
	})
	t.Run("before anything", func(t *testing.T) {
		s := newScript(t, Config{})
		s.step(StopAsked{}, `left`)
	})
}

// Case 54: created, grown, deleted, and metadata that flickers.
func TestCase54_TheLeaderJoinsAgainWhenTheTopicChanges(t *testing.T) {
	s := newScript(t, Config{})
	s.step(Started{}, `find-coordinator "g"`)
	s.found(`join node=1 member=""`)
	mine := s.lastJoin().AppendTo(nil)
	lead := func(generation int32, want ...string) {
		s.joined(JoinGroupResponse{Generation: generation, Member: "m", Leader: "m", Members: []JoinedMember{{"m", "", mine}}}, want...)
	}
	lead(1, `count-partitions [t]`)
	s.step(PartitionsCounted{s.slot, nil}, `sync node=1 generation=1 member="m" assignments=1`)
	given := s.acts[0].(Sync).Request.Assignments[0].Assignment
	s.synced(given, `entered generation=1 member="m" leader=true kept=[]`, `assigned generation=1 added=[] all=[] continues=false`)
	s.step(PartitionsChanged{0})
	s.step(PartitionsChanged{2}, `join node=1 member="m"`)
	lead(2, `count-partitions [t]`)
	s.step(PartitionsCounted{s.slot, map[string]int32{"t": 2}}, `sync node=1 generation=2 member="m" assignments=1`)
	given = s.acts[0].(Sync).Request.Assignments[0].Assignment
	s.synced(given, `entered generation=2 member="m" leader=true kept=[]`, `fetch-offsets node=1 [0 1]`)
	s.offsets(`assigned generation=2 added=[{0 0 -1} {1 10 -1}] all=[0 1] continues=true`)
	s.step(PartitionsChanged{0}) // waits: it may be one broker's old metadata
	s.step(PartitionsChanged{2}) // it was
	s.step(PartitionsChanged{4}) // growth, but the last forced join was just now
	s.at(3*time.Second, `heartbeat node=1 generation=2`)
	s.at(9999 * time.Millisecond)
	s.at(10*time.Second, `join node=1 member="m"`)
}

// A static leader that started again is told it follows.
func TestCase54_AFollowerNoticesWhatItsLeaderDoesNot(t *testing.T) {
	s := newScript(t, Config{Instance: "cart-0"})
	s.step(Started{}, `find-coordinator "g"`)
	s.found(`join node=1 member=""`)
	s.joined(JoinGroupResponse{Generation: 5, Member: "m2", Leader: "m1"}, `sync node=1 generation=5 member="m2" assignments=0`)
	old := Assignment{Partitions: []TopicPartitions{{"t", []int32{0}}}, UserData: leaderNote{1, 0}.appendTo(nil)}.AppendTo(nil)
	s.synced(old, `entered generation=5 member="m2" leader=false kept=[]`, `fetch-offsets node=1 [0]`)
	s.offsets(`assigned generation=5 added=[{0 0 -1}] all=[0] continues=false`)
	s.step(PartitionsChanged{3})
	for at := 3 * time.Second; at < followerWait; at += 3 * time.Second {
		s.at(at, `heartbeat node=1 generation=5`)
		s.beatCode(0)
	}
	s.at(followerWait, `join node=1 member="m2"`)
	if j := s.lastJoin(); j.Generation != 5 {
		t.Errorf("metadata %+v is that of the join before: the broker would not rebalance", j)
	}
}

func TestCase59_AnotherClientInTheGroupIsNamed(t *testing.T) {
	s := newScript(t, Config{})
	s.step(Started{}, `find-coordinator "g"`)
	s.found(`join node=1 member=""`)
	mine := s.lastJoin().AppendTo(nil)
	strange := []JoinedMember{{"m", "", mine}, {"x", "", []byte{9}}}
	s.acts = s.m.Step(nil, 0, Joined{s.slot, JoinGroupResponse{Generation: 1, Member: "m", Leader: "m", Protocol: CooperativeSticky, Members: strange}})
	w, ok := s.acts[0].(Warned)
	if !ok || !errors.Is(w.Err, ErrMalformed) || !strings.Contains(w.Err.Error(), `"x"`) {
		t.Fatalf("got %v", s.acts)
	}
	s.slot = s.acts[1].(CountPartitions).Attempt
	s.step(PartitionsCounted{s.slot, map[string]int32{"t": 2}}, `sync node=1 generation=1 member="m" assignments=2`)
	for _, g := range s.acts[0].(Sync).Request.Assignments {
		if a, _ := DecodeAssignment(g.Assignment); (g.Member == "x") != (len(a.Partitions) == 0) {
			t.Errorf("%s gets %+v", g.Member, a)
		}
	}
	s.step(HeartbeatAnswered{7, 27}) // nothing of the kind was asked
	s.at(3*time.Second, `heartbeat node=1 generation=1`)
	s.beatCode(27, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 2, Member: "m", Leader: "m", Members: strange}, `count-partitions [t]`) // told once
}

func TestCase59_RefusalsAreNamedOnceAndTriedEverSlower(t *testing.T) {
	for _, code := range []int16{23, 24, 26, 30, 81} {
		s := newScript(t, Config{})
		s.step(Started{}, `find-coordinator "g"`)
		s.found(`join node=1 member=""`)
		joins := 0
		for s.now < 10*time.Minute {
			s.acts = s.m.Step(nil, s.now, Joined{s.slot, JoinGroupResponse{ErrorCode: code}})
			if _, told := s.acts[0].(Refused); told != (joins == 0) {
				t.Fatalf("code %d, join %d: %v", code, joins, s.acts)
			}
			s.now = s.acts[len(s.acts)-1].(WakeAt).At
			joins++
			s.at(s.now, `join node=1 member=""`)
		}
		if joins > 30 {
			t.Errorf("code %d: %d joins in ten minutes", code, joins)
		}
	}
}

// Whatever a broker answers, joins stay at ten and one a second.
func TestNoStorm(t *testing.T) {
	s := newScript(t, Config{})
	s.m.Step(nil, 0, Started{})
	s.slot = 1
	s.found(`join node=1 member=""`)
	joins := 1
	for s.now < time.Minute && joins < 100 {
		acts := s.m.Step(nil, s.now, Joined{s.slot, JoinGroupResponse{ErrorCode: 79, Member: "m"}})
		if len(acts) == 1 {
			if w, ok := acts[0].(WakeAt); ok {
				s.now = w.At
				acts = s.m.Step(nil, s.now, Ticked{})
			}
		}
		if j, ok := acts[0].(Join); ok {
			s.slot = j.Attempt
			joins++
		}
	}
	if joins > 71 {
		t.Errorf("%d joins in a minute", joins)
	}
}

func TestConfigurationErrors(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no topic":         {Group: "g"},
		"no group":         {Topic: "t"},
		"unknown assignor": {Group: "g", Topic: "t", Assignors: []string{"sticky"}},
		"short session":    {Group: "g", Topic: "t", SessionTimeout: time.Millisecond},
		"long name":        {Group: strings.Repeat("g", 1<<15), Topic: "t"},
	} {
		if _, err := New(cfg); err == nil {
			t.Error(name)
		}
	}
}

func TestJudgeCommit(t *testing.T) {
	for code, want := range map[int16]Judgement{
		0: CommitDone, 27: CommitAfterRejoin, 22: CommitStale, 25: CommitStale, 82: CommitStale,
		14: CommitRetry, 15: CommitRetry, 16: CommitRetry, 7: CommitRetry, 3: CommitRetry, -1: CommitRetry,
		29: CommitRefused, 30: CommitRefused, 12: CommitRefused, 28: CommitRefused, 42: CommitRefused,
	} {
		if got := JudgeCommit(code); got != want {
			t.Errorf("%d: %v, want %v", code, got, want)
		}
	}
}

// A coordinator that forgot the id it had just given to a static member.
func TestAFenceBeforeTheFirstGenerationIsTriedOnce(t *testing.T) {
	s := newScript(t, Config{Instance: "cart-0"})
	s.step(Started{}, `find-coordinator "g"`)
	s.found(`join node=1 member=""`)
	s.joined(JoinGroupResponse{Generation: 5, Member: "m2", Leader: "m1"}, `sync node=1 generation=5 member="m2" assignments=0`)
	s.step(Synced{s.slot, SyncGroupResponse{ErrorCode: 82}})
	s.at(100*time.Millisecond, `join node=1 member=""`)
	s.joinCode(82, "", `fatal code=82`)
}

// An answer that lay unread while we slept may be of a group that went on.
func TestSleepingMakesEveryOutstandingAnswerStale(t *testing.T) {
	s := toStable(t, Config{})
	s.at(3*time.Second, `heartbeat node=1 generation=5`)
	s.beatCode(27, `join node=1 member="m"`)
	s.joined(JoinGroupResponse{Generation: 6, Member: "m", Leader: "other"}, `sync node=1 generation=6 member="m" assignments=0`)
	sync := s.slot
	s.now = 30 * time.Second
	s.step(Slept{20 * time.Second}, `suspend drain=0 [0 1] deadline=30s the supervisor did not run for 20s`, `join node=1 member="m"`)
	s.step(Synced{sync, SyncGroupResponse{Assignment: share(0, 1)}})
	if s.m.Stale() != 1 || s.m.State() != Joining {
		t.Error(s.m.Stale(), s.m)
	}
}

// Killed between its assignment and its letting go, a static member comes back
// to the old assignment and knows nothing of what it was to let go of.
func TestWithheldPartitionsAreHandedOverInTheEnd(t *testing.T) {
	s := newScript(t, Config{Instance: "cart-0"})
	s.step(Started{}, `find-coordinator "g"`)
	s.found(`join node=1 member=""`)
	s.joined(JoinGroupResponse{Generation: 5, Member: "m2", Leader: "m1"}, `sync node=1 generation=5 member="m2" assignments=0`)
	old := Assignment{Partitions: []TopicPartitions{{"t", []int32{0}}}, UserData: leaderNote{2, 1}.appendTo(nil)}.AppendTo(nil)
	s.synced(old, `entered generation=5 member="m2" leader=false kept=[]`, `fetch-offsets node=1 [0]`)
	s.offsets(`assigned generation=5 added=[{0 0 -1}] all=[0] continues=false`)
	s.step(PartitionsChanged{2})
	for at := 3 * time.Second; at < 30*time.Second; at += 3 * time.Second {
		s.at(at, `heartbeat node=1 generation=5`)
		s.beatCode(0)
	}
	s.at(30*time.Second, `join node=1 member="m2"`)
}
