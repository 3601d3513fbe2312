package sequence

import "fmt"

// verdict is what an answer means for the bytes it answers.
type verdict uint8

const (
	// confirmed: appended and replicated, whether by this request or before.
	confirmed verdict = iota
	// again: certainly not appended; the same records are sent again.
	again
	// unknown: it may have been appended; the identical bytes are sent again.
	unknown
	// split: certainly not appended; in parts it may be accepted.
	split
	// refuse: certainly not appended, and sending it again does not help.
	refuse
	// outOfOrder: the broker expects another sequence.
	outOfOrder
	// lost: whether it was appended cannot be known.
	lost
)

// Error codes of Kafka that mean something here beside "any other refusal".
const (
	codeNone                = 0
	codeUnknownServer       = -1
	codeCorruptMessage      = 2
	codeTooLarge            = 10
	codeInvalidTopic        = 17
	codeNotEnoughReplicas   = 19
	codeTopicAuthorization  = 29
	codeClusterAuth         = 31
	codeInvalidTimestamp    = 32
	codeOutOfOrder          = 45
	codeDuplicate           = 46
	codeInvalidEpoch        = 47
	codeUnknownProducer     = 59
	codeInvalidRecord       = 87
	codeUnknownTopic        = 3
	codeNotLeader           = 6
	codeNotEnoughAfterWrite = 20
)

// retriable are the codes that Kafka's clients count as retriable, without 2
// and 19, which have rows of their own in the table.
var retriable = map[int16]bool{
	codeUnknownServer: true, codeUnknownTopic: true, 5: true, codeNotLeader: true, 7: true, 8: true, 9: true, 13: true, 14: true, 15: true, 16: true,
	codeNotEnoughAfterWrite: true, 41: true, 51: true, 56: true, 72: true, 74: true, 75: true, 78: true, 80: true, 84: true, 89: true, 100: true, 103: true,
}

// judge is the table of what an answer means. repeat says that an earlier answer to
// the same bytes was unknown.
func judge(code int16, repeat bool) verdict {
	switch {
	case code == codeNone || code == codeDuplicate:
		return confirmed
	case code == codeCorruptMessage || code == codeNotEnoughReplicas:
		// 19 that answers a repeat is said about this attempt, not about the
		// first, which may lie in the log.
		if repeat {
			return unknown
		}
		return again
	case retriable[code]:
		return unknown
	case repeat:
		return lost
	case code == codeTooLarge || code == codeInvalidRecord || code == codeInvalidTimestamp:
		return split
	case code == codeOutOfOrder:
		return outOfOrder
	case code == codeInvalidEpoch || code == codeUnknownProducer:
		return lost
	default:
		return refuse
	}
}

// Explain says what an error code of a produce answer is called and, where
// there is one, what a person can do about it: "code 29 (TOPIC_AUTHORIZATION_FAILED):
// the user needs WRITE on the topic". Message, the broker's own text, may be
// empty.
func Explain(code int16, message string) string {
	text := fmt.Sprintf("code %d", code)
	if name := names[code]; name != "" {
		text += " (" + name + ")"
	}
	if hint := hints[code]; hint != "" {
		text += ": " + hint
	}
	if message != "" && message != names[code] {
		text += " (the broker says: " + message + ")"
	}
	return text
}

var names = map[int16]string{
	-1: "UNKNOWN_SERVER_ERROR", 2: "CORRUPT_MESSAGE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 5: "LEADER_NOT_AVAILABLE", 6: "NOT_LEADER_OR_FOLLOWER",
	7: "REQUEST_TIMED_OUT", 8: "BROKER_NOT_AVAILABLE", 9: "REPLICA_NOT_AVAILABLE", 10: "MESSAGE_TOO_LARGE", 13: "NETWORK_EXCEPTION",
	14: "COORDINATOR_LOAD_IN_PROGRESS", 15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR", 17: "INVALID_TOPIC_EXCEPTION",
	18: "RECORD_LIST_TOO_LARGE", 19: "NOT_ENOUGH_REPLICAS", 20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 21: "INVALID_REQUIRED_ACKS",
	29: "TOPIC_AUTHORIZATION_FAILED", 31: "CLUSTER_AUTHORIZATION_FAILED", 32: "INVALID_TIMESTAMP", 35: "UNSUPPORTED_VERSION",
	42: "INVALID_REQUEST", 43: "UNSUPPORTED_FOR_MESSAGE_FORMAT", 44: "POLICY_VIOLATION", 45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
	46: "DUPLICATE_SEQUENCE_NUMBER", 47: "INVALID_PRODUCER_EPOCH", 51: "CONCURRENT_TRANSACTIONS", 56: "KAFKA_STORAGE_ERROR",
	59: "UNKNOWN_PRODUCER_ID", 76: "UNSUPPORTED_COMPRESSION_TYPE", 87: "INVALID_RECORD", 89: "THROTTLING_QUOTA_EXCEEDED",
}

var hints = map[int16]string{
	codeTooLarge:           "the topic's max.message.bytes is smaller than this one record",
	codeInvalidTopic:       "the topic's name is not valid, or it is an internal topic",
	codeTopicAuthorization: "the user needs WRITE on the topic",
	codeClusterAuth:        "the user needs IDEMPOTENT_WRITE on the cluster, or WRITE on a topic",
	codeInvalidTimestamp:   "the record's timestamp is outside what the topic allows",
	codeInvalidRecord:      "the topic refuses the record as it is (a compacted topic needs a key)",
	44:                     "the cluster's policy refuses it",
	76:                     "the topic does not take this compression",
}
