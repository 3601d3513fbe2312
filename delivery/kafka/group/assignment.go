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
	// UserData belongs to the assignor; nil is null. See countUserData.
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

// countMark begins our user data in assignments.
var countMark = [4]byte{'a', 'f', 'c', 1}

// countUserData tells a member how many partitions its topic had when the
// leader assigned it, so that every member, and not the leader alone, can see
// that the topic has grown since. It is needed where the leader does not know
// that it leads: a static leader that starts again is answered as a follower
// before JoinGroup v9, and partitions added meanwhile would never be read.
// Java's assignors ignore user data in an assignment.
func countUserData(count int32) []byte {
	return appendInt32(countMark[:len(countMark):len(countMark)], count)
}

// assignedCount reads what countUserData wrote; false: another leader's.
func (a Assignment) assignedCount() (int32, bool) {
	if len(a.UserData) != 8 || [4]byte(a.UserData[:4]) != countMark {
		return 0, false
	}
	n := int32(binary.BigEndian.Uint32(a.UserData[4:]))
	return n, n >= 0
}
