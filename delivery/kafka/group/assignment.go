package group

import (
	"encoding/binary"
	"fmt"
)

// assignmentVersion is what we write. Java's versions 0 to 3 have the same
// fields; 0 and 1 are read by every client.
const assignmentVersion = 1

// Assignment is what the leader gives one member in SyncGroup: Java's
// ConsumerProtocolAssignment.
type Assignment struct {
	// Partitions by topic.
	Partitions []TopicPartitions
	// UserData belongs to the assignor; nil is null. See leaderNote.
	UserData []byte
}

// AppendTo appends the assignment as version 1.
func (a Assignment) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, assignmentVersion)
	dst = appendTopicPartitions(dst, a.Partitions)
	return appendBytes(dst, a.UserData)
}

// DecodeAssignment reads an assignment of any version. Empty bytes are an empty
// assignment: that is what the broker hands to a member that the leader left
// out. User data that is cut off counts as none. Its error wraps ErrMalformed.
func DecodeAssignment(src []byte) (Assignment, error) {
	if len(src) == 0 {
		return Assignment{}, nil
	}
	r := reader{src: src}
	var a Assignment
	if r.int16("assignment version") < 0 {
		r.fail("negative assignment version")
	}
	a.Partitions = r.topicPartitions("partitions")
	if r.err != nil {
		return Assignment{}, fmt.Errorf("reading our assignment: %w", r.err)
	}
	if a.UserData = r.bytes("user data"); r.err != nil {
		a.UserData = nil
	}
	return a, nil
}

// noteMark begins our user data in assignments.
var noteMark = [4]byte{'a', 'f', 'n', 1}

// leaderNote is our user data in an assignment: what a member has to know of
// the leader's decision to see that the group is not as it should be, and to
// force a rebalance when the leader does not. That happens with static members:
// before JoinGroup v9 a static leader that starts again is answered as a
// follower, and one that is killed while it lets go of partitions comes back to
// its old assignment without a rebalance, so nobody hands them over. Java's
// assignors ignore user data in an assignment.
type leaderNote struct {
	// count is how many partitions the topic had.
	count int32
	// withheld is how many of them wait for another member to let go.
	withheld int32
}

func (n leaderNote) appendTo(dst []byte) []byte {
	dst = append(dst, noteMark[:]...)
	return appendInt32(appendInt32(dst, n.count), n.withheld)
}

// note reads what appendTo wrote; false: another leader's.
func (a Assignment) note() (leaderNote, bool) {
	if len(a.UserData) != 12 || [4]byte(a.UserData[:4]) != noteMark {
		return leaderNote{}, false
	}
	n := leaderNote{int32(binary.BigEndian.Uint32(a.UserData[4:])), int32(binary.BigEndian.Uint32(a.UserData[8:]))}
	return n, n.count >= 0 && n.withheld >= 0
}
