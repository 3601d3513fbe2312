package group

import "fmt"

// The Kafka error codes that decide something in this package.
const (
	codeNone                     int16 = 0
	codeUnknownTopicOrPartition  int16 = 3
	codeOffsetMetadataTooLarge   int16 = 12
	codeLoadInProgress           int16 = 14
	codeCoordinatorNotAvailable  int16 = 15
	codeNotCoordinator           int16 = 16
	codeIllegalGeneration        int16 = 22
	codeInconsistentProtocol     int16 = 23
	codeInvalidGroupID           int16 = 24
	codeUnknownMemberID          int16 = 25
	codeInvalidSessionTimeout    int16 = 26
	codeRebalanceInProgress      int16 = 27
	codeInvalidCommitOffsetSize  int16 = 28
	codeTopicAuthorization       int16 = 29
	codeGroupAuthorization       int16 = 30
	codeUnsupportedVersion       int16 = 35
	codeInvalidRequest           int16 = 42
	codeMemberIDRequired         int16 = 79
	codeGroupMaxSizeReached      int16 = 81
	codeFencedInstanceID         int16 = 82
	codeTransactionalIDNotFound  int16 = 105
	codeClusterAuthorization     int16 = 31
	codeSecurityDisabled         int16 = 54
	codeUnsupportedForMessage    int16 = 43
	codeStaleMemberEpoch         int16 = 113
	codeFencedMemberEpoch        int16 = 110
	codeGroupIDNotFound          int16 = 69
	codeSASLAuthenticationFailed int16 = 58
)

// codeText says for each code a person may meet what it is and what to do.
var codeText = map[int16]string{
	codeUnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION: no such topic or partition",
	codeLoadInProgress:          "COORDINATOR_LOAD_IN_PROGRESS: the coordinator is starting",
	codeCoordinatorNotAvailable: "COORDINATOR_NOT_AVAILABLE: the group has no coordinator at the moment",
	codeNotCoordinator:          "NOT_COORDINATOR: the group has moved to another broker",
	codeIllegalGeneration:       "ILLEGAL_GENERATION: the group went on without this member",
	codeInconsistentProtocol:    "INCONSISTENT_GROUP_PROTOCOL: the group has members of another client, protocol or assignor; give this inlet a group of its own, or one of their assignors (partition.assignment.strategy)",
	codeInvalidGroupID:          "INVALID_GROUP_ID: the broker does not take this group id",
	codeUnknownMemberID:         "UNKNOWN_MEMBER_ID: the group no longer has this member",
	codeInvalidSessionTimeout:   "INVALID_SESSION_TIMEOUT: session.timeout.ms is outside the broker's group.min.session.timeout.ms to group.max.session.timeout.ms",
	codeRebalanceInProgress:     "REBALANCE_IN_PROGRESS",
	codeTopicAuthorization:      "TOPIC_AUTHORIZATION_FAILED: the user needs READ on the topic",
	codeGroupAuthorization:      "GROUP_AUTHORIZATION_FAILED: the user needs READ on the group",
	codeUnsupportedVersion:      "UNSUPPORTED_VERSION: the broker is older than Kafka 2.4",
	codeMemberIDRequired:        "MEMBER_ID_REQUIRED",
	codeGroupMaxSizeReached:     "GROUP_MAX_SIZE_REACHED: the group has as many members as the broker allows",
	codeFencedInstanceID:        "FENCED_INSTANCE_ID: another process uses this group.instance.id",
}

// CodeText names a Kafka error code as people search for it, with what to do
// where that is known. 0 is "none"; an unknown one is its number.
func CodeText(code int16) string {
	if code == codeNone {
		return "none"
	}
	if s, ok := codeText[code]; ok {
		return fmt.Sprintf("%s (%d)", s, code)
	}
	return fmt.Sprintf("Kafka error %d", code)
}

// Judgement is what an OffsetCommit's code means for the offset that was sent.
type Judgement uint8

const (
	// CommitDone: the broker keeps the offset.
	CommitDone Judgement = iota + 1
	// CommitRetry: send the newest value again after a pause, after looking for the
	// coordinator where the code is 14, 15 or 16.
	CommitRetry
	// CommitAfterRejoin: a rebalance is being completed; send the newest value
	// again once Entered names the next generation, if the partition stays.
	CommitAfterRejoin
	// CommitStale: the generation or member is no longer the group's;
	// nothing is committed and nothing may be, under it. Give the code to the
	// machine (CommitAnswered), which ends the generation.
	CommitStale
	// CommitRefused: it cannot succeed by repeating (authorization, invalid
	// request); it fails the stream.
	CommitRefused
)

// String names the judgement.
func (j Judgement) String() string {
	switch j {
	case CommitDone:
		return "committed"
	case CommitRetry:
		return "retry"
	case CommitAfterRejoin:
		return "retry after rejoin"
	case CommitStale:
		return "stale generation"
	case CommitRefused:
		return "refused"
	}
	return fmt.Sprintf("Judgement(%d)", uint8(j))
}

// JudgeCommit reads a partition's code in an OffsetCommit answer. A code that
// is not known here is CommitRetry: a commit is idempotent, and only a certain
// refusal may fail a stream.
func JudgeCommit(code int16) Judgement {
	switch code {
	case codeNone:
		return CommitDone
	case codeRebalanceInProgress:
		return CommitAfterRejoin
	case codeIllegalGeneration, codeUnknownMemberID, codeFencedInstanceID,
		codeStaleMemberEpoch, codeFencedMemberEpoch, codeGroupIDNotFound:
		return CommitStale
	case codeOffsetMetadataTooLarge, codeInvalidCommitOffsetSize, codeInvalidGroupID,
		codeTopicAuthorization, codeGroupAuthorization, codeClusterAuthorization,
		codeUnsupportedVersion, codeInvalidRequest, codeUnsupportedForMessage,
		codeSecurityDisabled, codeSASLAuthenticationFailed, codeTransactionalIDNotFound,
		codeInconsistentProtocol:
		return CommitRefused
	}
	return CommitRetry
}
