package group

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sameRequest checks a request's body against franz-go's encoder.
func sameRequest(t *testing.T, want kmsg.Request, version int16, got []byte) {
	t.Helper()
	want.SetVersion(version)
	if want.IsFlexible() {
		t.Fatalf("version %d is flexible", version)
	}
	if w := want.AppendTo(nil); !bytes.Equal(got, w) {
		t.Errorf("got  %x\nwant %x", got, w)
	}
}

func TestRequestsAreWhatFranzGoWrites(t *testing.T) {
	instance := "cart-0"
	t.Run("find coordinator", func(t *testing.T) {
		k := kmsg.NewFindCoordinatorRequest()
		k.CoordinatorKey = "g"
		sameRequest(t, &k, FindCoordinatorVersion, FindCoordinatorRequest{"g"}.AppendTo(nil))
	})
	for _, id := range []string{"", instance} {
		var pid *string
		if id != "" {
			pid = &instance
		}
		t.Run("join instance="+id, func(t *testing.T) {
			k := kmsg.NewJoinGroupRequest()
			k.Group, k.SessionTimeoutMillis, k.RebalanceTimeoutMillis = "g", 45000, 60000
			k.MemberID, k.InstanceID, k.ProtocolType = "m", pid, "consumer"
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = CooperativeSticky, []byte{1, 2}
			k.Protocols = append(k.Protocols, p)
			sameRequest(t, &k, JoinGroupVersion, JoinGroupRequest{"g", 45 * time.Second, time.Minute, "m", id,
				[]JoinProtocol{{CooperativeSticky, []byte{1, 2}}}}.AppendTo(nil))
		})
		t.Run("sync instance="+id, func(t *testing.T) {
			k := kmsg.NewSyncGroupRequest()
			k.Group, k.Generation, k.MemberID, k.InstanceID = "g", 7, "m", pid
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = "n", []byte{3}
			k.GroupAssignment = append(k.GroupAssignment, a)
			sameRequest(t, &k, SyncGroupVersion, SyncGroupRequest{"g", 7, "m", id, []MemberAssignment{{"n", []byte{3}}}}.AppendTo(nil))
		})
		t.Run("heartbeat instance="+id, func(t *testing.T) {
			k := kmsg.NewHeartbeatRequest()
			k.Group, k.Generation, k.MemberID, k.InstanceID = "g", 7, "m", pid
			sameRequest(t, &k, HeartbeatVersion, HeartbeatRequest{"g", 7, "m", id}.AppendTo(nil))
		})
		t.Run("leave instance="+id, func(t *testing.T) {
			k := kmsg.NewLeaveGroupRequest()
			k.Group = "g"
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID, m.InstanceID = "m", pid
			k.Members = append(k.Members, m)
			sameRequest(t, &k, LeaveGroupVersion, LeaveGroupRequest{"g", "m", id}.AppendTo(nil))
		})
		t.Run("commit instance="+id, func(t *testing.T) {
			k := kmsg.NewOffsetCommitRequest()
			k.Group, k.Generation, k.MemberID, k.InstanceID = "g", 7, "m", pid
			kt := kmsg.NewOffsetCommitRequestTopic()
			kt.Topic = "t"
			for p, o := range map[int32]int64{4: 1 << 40} {
				kp := kmsg.NewOffsetCommitRequestTopicPartition()
				kp.Partition, kp.Offset, kp.LeaderEpoch, kp.Metadata = p, o, -1, new(string)
				kt.Partitions = append(kt.Partitions, kp)
			}
			k.Topics = append(k.Topics, kt)
			sameRequest(t, &k, OffsetCommitVersion, OffsetCommitRequest{"g", 7, "m", id, "t", []CommitOffset{{4, 1 << 40, -1}}}.AppendTo(nil))
		})
	}
	t.Run("offset fetch", func(t *testing.T) {
		k := kmsg.NewOffsetFetchRequest()
		k.Group = "g"
		kt := kmsg.NewOffsetFetchRequestTopic()
		kt.Topic, kt.Partitions = "t", []int32{0, 5}
		k.Topics = append(k.Topics, kt)
		sameRequest(t, &k, OffsetFetchVersion, OffsetFetchRequest{"g", "t", []int32{0, 5}}.AppendTo(nil))
	})
}

// answers are one encoded answer of each kind, by franz-go, and what has to come out.
func answers() map[string]struct {
	body   []byte
	want   any
	decode func([]byte) (any, error)
} {
	type answer = struct {
		body   []byte
		want   any
		decode func([]byte) (any, error)
	}
	instance, text := "cart-0", "why"
	find := kmsg.NewFindCoordinatorResponse()
	find.Version, find.ErrorMessage, find.NodeID, find.Host, find.Port = FindCoordinatorVersion, &text, 3, "h", 9092
	join := kmsg.NewJoinGroupResponse()
	join.Version, join.Generation, join.LeaderID, join.MemberID = JoinGroupVersion, 8, "a", "a"
	protocol := Range
	join.Protocol = &protocol
	jm := kmsg.NewJoinGroupResponseMember()
	jm.MemberID, jm.InstanceID, jm.ProtocolMetadata = "a", &instance, []byte{9}
	join.Members = append(join.Members, jm, kmsg.JoinGroupResponseMember{MemberID: "b", ProtocolMetadata: []byte{8}})
	sync := kmsg.NewSyncGroupResponse()
	sync.Version, sync.ErrorCode, sync.MemberAssignment = SyncGroupVersion, 27, []byte{4, 5}
	beat := kmsg.NewHeartbeatResponse()
	beat.Version, beat.ThrottleMillis, beat.ErrorCode = HeartbeatVersion, 69, 27
	leave := kmsg.NewLeaveGroupResponse()
	leave.Version = LeaveGroupVersion
	lm := kmsg.NewLeaveGroupResponseMember()
	lm.MemberID, lm.ErrorCode = "a", 25
	leave.Members = append(leave.Members, lm)
	commit := kmsg.NewOffsetCommitResponse()
	commit.Version = OffsetCommitVersion
	commit.Topics = []kmsg.OffsetCommitResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 1, ErrorCode: 22}, {Partition: 2}}}}
	fetch := kmsg.NewOffsetFetchResponse()
	fetch.Version, fetch.ErrorCode = OffsetFetchVersion, 16
	fetch.Topics = []kmsg.OffsetFetchResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetFetchResponseTopicPartition{
		{Partition: 1, Offset: 1 << 40, LeaderEpoch: 6, Metadata: &text}, {Partition: 2, Offset: -1, LeaderEpoch: -1, ErrorCode: 3}}}}
	return map[string]answer{
		"find":   {find.AppendTo(nil), FindCoordinatorResponse{0, "why", 3, "h", 9092}, func(b []byte) (any, error) { return DecodeFindCoordinator(b) }},
		"join":   {join.AppendTo(nil), JoinGroupResponse{0, 8, Range, "a", "a", []JoinedMember{{"a", "cart-0", []byte{9}}, {"b", "", []byte{8}}}}, func(b []byte) (any, error) { return DecodeJoinGroup(b) }},
		"sync":   {sync.AppendTo(nil), SyncGroupResponse{27, []byte{4, 5}}, func(b []byte) (any, error) { return DecodeSyncGroup(b) }},
		"beat":   {beat.AppendTo(nil), int16(27), func(b []byte) (any, error) { return DecodeHeartbeat(b) }},
		"leave":  {leave.AppendTo(nil), int16(25), func(b []byte) (any, error) { return DecodeLeaveGroup(b) }},
		"commit": {commit.AppendTo(nil), OffsetCommitResponse{[]CommittedTopic{{"t", []CommittedPartition{{1, 22}, {2, 0}}}}}, func(b []byte) (any, error) { return DecodeOffsetCommit(b) }},
		"fetch":  {fetch.AppendTo(nil), OffsetFetchResponse{[]FetchedTopic{{"t", []FetchedOffset{{1, 1 << 40, 6, 0}, {2, -1, -1, 3}}}}, 16}, func(b []byte) (any, error) { return DecodeOffsetFetch(b) }},
	}
}

func TestAnswersAreReadAsFranzGoWritesThem(t *testing.T) {
	for name, a := range answers() {
		got, err := a.decode(a.body)
		if err != nil || !reflect.DeepEqual(got, a.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, a.want)
		}
	}
}

func TestAnAnswerThatEndsEarlyIsMalformed(t *testing.T) {
	for name, a := range answers() {
		for n := range a.body {
			if _, err := a.decode(a.body[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut at %d of %d: %v", name, n, len(a.body), err)
			}
		}
	}
}

// A count of 2^31-1 in a short answer: refused, and nothing allocated for it.
func TestHostileCountsAllocateNothing(t *testing.T) {
	huge := appendInt32(nil, 1<<31-1)
	bodies := map[string]func() error{
		"join": func() error {
			_, err := DecodeJoinGroup(append(make([]byte, 4+2+4+2+2+2), huge...))
			return err
		},
		"offset fetch": func() error { _, err := DecodeOffsetFetch(append(make([]byte, 4), huge...)); return err },
		"commit": func() error {
			_, err := DecodeOffsetCommit(append(append(make([]byte, 4), 0, 0, 0, 1, 0, 0), huge...))
			return err
		},
		"subscription": func() error { _, err := DecodeSubscription(append(make([]byte, 2), huge...)); return err },
		"assignment":   func() error { _, err := DecodeAssignment(append(make([]byte, 2), huge...)); return err },
	}
	for name, decode := range bodies {
		if err := decode(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if n := testing.AllocsPerRun(10, func() { _ = decode() }); n > 20 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// theirs is what franz-go reads in an answer, in our types; false: nothing, or
// what it would not write so: it takes any count below 0 for null, we only -1.
func theirs(name string, b []byte) (any, bool) {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	read := func(resp kmsg.Response, version int16) bool {
		resp.SetVersion(version)
		return resp.ReadFrom(b) == nil && bytes.HasPrefix(b, resp.AppendTo(nil))
	}
	switch name {
	case "find":
		var r kmsg.FindCoordinatorResponse
		ok := read(&r, FindCoordinatorVersion)
		return FindCoordinatorResponse{r.ErrorCode, text(r.ErrorMessage), r.NodeID, r.Host, r.Port}, ok
	case "join":
		var r kmsg.JoinGroupResponse
		ok := read(&r, JoinGroupVersion)
		out := JoinGroupResponse{r.ErrorCode, r.Generation, text(r.Protocol), r.LeaderID, r.MemberID, nil}
		for _, m := range r.Members {
			out.Members = append(out.Members, JoinedMember{m.MemberID, text(m.InstanceID), m.ProtocolMetadata})
		}
		return out, ok
	case "sync":
		var r kmsg.SyncGroupResponse
		ok := read(&r, SyncGroupVersion)
		return SyncGroupResponse{r.ErrorCode, r.MemberAssignment}, ok
	case "beat":
		var r kmsg.HeartbeatResponse
		ok := read(&r, HeartbeatVersion)
		return r.ErrorCode, ok
	case "leave":
		var r kmsg.LeaveGroupResponse
		ok := read(&r, LeaveGroupVersion)
		for _, m := range r.Members {
			if r.ErrorCode == 0 {
				r.ErrorCode = m.ErrorCode
			}
		}
		return r.ErrorCode, ok
	case "commit":
		var r kmsg.OffsetCommitResponse
		ok := read(&r, OffsetCommitVersion)
		var out OffsetCommitResponse
		for _, t := range r.Topics {
			c := CommittedTopic{Topic: t.Topic, Partitions: []CommittedPartition{}}
			for _, p := range t.Partitions {
				c.Partitions = append(c.Partitions, CommittedPartition{p.Partition, p.ErrorCode})
			}
			out.Topics = append(out.Topics, c)
		}
		return out, ok
	}
	var r kmsg.OffsetFetchResponse
	ok := read(&r, OffsetFetchVersion)
	out := OffsetFetchResponse{ErrorCode: r.ErrorCode}
	for _, t := range r.Topics {
		c := FetchedTopic{Topic: t.Topic, Partitions: []FetchedOffset{}}
		for _, p := range t.Partitions {
			c.Partitions = append(c.Partitions, FetchedOffset{p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode})
		}
		out.Topics = append(out.Topics, c)
	}
	return out, ok
}

// FuzzAnswers: what a coordinator answers is malformed or says what franz-go
// reads in it, and costs no more memory than its bytes justify.
func FuzzAnswers(f *testing.F) {
	all := answers()
	for _, a := range all {
		f.Add(a.body)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, a := range all {
			var got any
			var err error
			if grown := allocated(func() { got, err = a.decode(b) }); grown > uint64(100*len(b)+64<<10) {
				t.Errorf("%s: %d bytes allocated for %d", name, grown, len(b))
			}
			if err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
			want, ok := theirs(name, b)
			if !ok {
				continue // we let a null pass where none is due
			}
			if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%s: got %+v, %v\nfranz-go has %+v", name, got, err, want)
			}
		}
	})
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
