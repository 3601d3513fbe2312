package group

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func oracleSubscription(version int16) kmsg.ConsumerMemberMetadata {
	k := kmsg.NewConsumerMemberMetadata()
	rack := "r1"
	k.Version, k.Topics, k.UserData, k.Generation, k.Rack = version, []string{"a", "b"}, StickyUserData(6), 7, &rack
	k.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "a", Partitions: []int32{0, 2}}}
	return k
}

func TestSubscriptionsOfEveryVersion(t *testing.T) {
	for version := int16(0); version <= 3; version++ {
		k := oracleSubscription(version)
		want := Subscription{Topics: []string{"a", "b"}, UserData: StickyUserData(6), Generation: -1}
		claims := int32(6)
		if version >= 1 {
			want.Owned = []TopicPartitions{{"a", []int32{0, 2}}}
		}
		if version >= 2 {
			want.Generation, claims = 7, 7
		}
		if version >= 3 {
			want.Rack = "r1"
		}
		got, err := DecodeSubscription(k.AppendTo(nil))
		if err != nil || !reflect.DeepEqual(got, want) || got.claimGeneration() != claims {
			t.Errorf("version %d: got %+v, %v\nwant %+v", version, got, err, want)
		}
	}
}

func TestOurSubscriptionIsWhatFranzGoWrites(t *testing.T) {
	k := oracleSubscription(3)
	s := Subscription{Topics: k.Topics, UserData: k.UserData, Owned: []TopicPartitions{{"a", []int32{0, 2}}}, Generation: 7, Rack: "r1"}
	if got, want := s.AppendTo(nil), k.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	k.Rack, s.Rack = nil, ""
	if got, want := s.AppendTo(nil), k.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("no rack: got  %x\nwant %x", got, want)
	}
}

// A version from the future has more behind what we know.
func TestANewerSubscriptionIsReadAsOurs(t *testing.T) {
	k := oracleSubscription(3)
	b := append(k.AppendTo(nil), 1, 2, 3)
	b[1] = 9
	got, err := DecodeSubscription(b)
	if err != nil || got.Truncated || got.Rack != "r1" || got.Generation != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// kafka-go claims version 1 and writes version 0.
func TestCase59_ASubscriptionCutShortIsTolerated(t *testing.T) {
	k := oracleSubscription(0)
	b := k.AppendTo(nil)
	b[1] = 1
	got, err := DecodeSubscription(b)
	if err != nil || !got.Truncated || !reflect.DeepEqual(got.Topics, []string{"a", "b"}) || got.Owned != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, {0}, {0, 0, 0, 0, 0, 9}, {255, 255, 0, 0, 0, 0, 0, 0, 0, 0}} {
		if _, err := DecodeSubscription(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

func TestAssignments(t *testing.T) {
	k := kmsg.NewConsumerMemberAssignment()
	k.Version, k.UserData = 1, []byte{5}
	k.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "a", Partitions: []int32{1, 3}}}
	a := Assignment{Partitions: []TopicPartitions{{"a", []int32{1, 3}}}, UserData: []byte{5}}
	if got, want := a.AppendTo(nil), k.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	for _, version := range []int16{0, 1, 2, 9} {
		k.Version = version
		if got, err := DecodeAssignment(k.AppendTo(nil)); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
	}
	if got, err := DecodeAssignment(nil); err != nil || got.Partitions != nil {
		t.Errorf("empty: %+v, %v", got, err)
	}
	cut := k.AppendTo(nil)
	if got, err := DecodeAssignment(cut[:len(cut)-3]); err != nil || got.UserData != nil || len(got.Partitions) != 1 {
		t.Errorf("user data cut: %+v, %v", got, err)
	}
	if _, err := DecodeAssignment(cut[:9]); !errors.Is(err, ErrMalformed) {
		t.Errorf("partitions cut: %v", err)
	}
	if n, said := (Assignment{UserData: leaderNote{12, 3}.appendTo(nil)}).note(); n != (leaderNote{12, 3}) || !said {
		t.Errorf("note: %v, %t", n, said)
	}
	if _, said := (Assignment{UserData: []byte{0, 0, 0, 7}}).note(); said {
		t.Error("another leader's user data was taken for a count")
	}
}

func FuzzSubscription(f *testing.F) {
	for v := int16(0); v <= 3; v++ {
		k := oracleSubscription(v)
		f.Add(k.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSubscription(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		k := kmsg.NewConsumerMemberMetadata()
		if !s.Truncated && k.ReadFrom(b) == nil && !reflect.DeepEqual(s.Topics, append([]string(nil), k.Topics...)) {
			t.Fatalf("topics %q, franz-go reads %q", s.Topics, k.Topics)
		}
		again, err := DecodeSubscription(s.AppendTo(nil))
		s.Truncated = false
		if err != nil || again.Truncated || !reflect.DeepEqual(again.Topics, s.Topics) || again.Generation != s.Generation {
			t.Fatalf("%+v came back as %+v, %v", s, again, err)
		}
	})
}

func FuzzAssignment(f *testing.F) {
	f.Add(Assignment{Partitions: []TopicPartitions{{"a", []int32{1, 3}}}, UserData: leaderNote{4, 0}.appendTo(nil)}.AppendTo(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAssignment(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if again, err := DecodeAssignment(a.AppendTo(nil)); err != nil || !reflect.DeepEqual(again, a) {
			t.Fatalf("%+v came back as %+v, %v", a, again, err)
		}
	})
}
