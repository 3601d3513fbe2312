package kafka

import (
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// The Kafka error codes that decide something in this package.
const (
	codeNone                   int16 = 0
	codeOffsetOutOfRange       int16 = 1
	codeUnknownTopic           int16 = 3
	codeLeaderNotAvailable     int16 = 5
	codeNotLeader              int16 = 6
	codeReplicaNotAvailable    int16 = 9
	codeLoadInProgress         int16 = 14
	codeCoordinatorUnavailable int16 = 15
	codeNotCoordinator         int16 = 16
	codeTopicAuthorization     int16 = 29
	codeTopicExists            int16 = 36
	codeKafkaStorage           int16 = 56
	codeFencedLeaderEpoch      int16 = 74
	codeUnknownLeaderEpoch     int16 = 75
	codeOffsetNotAvailable     int16 = 78
	codeUnstableOffsetCommit   int16 = 88
)

// CodeError is a Kafka error code that a broker answered with.
type CodeError struct {
	// What was asked, such as "listing offsets of topic carts".
	What string
	// Code is Kafka's number, never 0.
	Code int16
}

// Error names the code as people search for it, and its number.
func (e *CodeError) Error() string {
	return fmt.Sprintf("%s: %s", e.What, codeText(e.Code))
}

// codeText names a code, its number and, where that is plain, what to do.
func codeText(code int16) string {
	e := kafkago.Error(code)
	s := fmt.Sprintf("[%d] %s", code, e.Title())
	if e.Title() == "" {
		s = fmt.Sprintf("Kafka error %d", code)
	}
	switch code {
	case codeUnknownTopic:
		s += ": the broker has no such topic; check the name, or create it"
	case codeTopicAuthorization:
		s += ": the READ or DESCRIBE right on the topic is missing"
	case 30:
		s += ": the READ right on the group is missing"
	case 31:
		s += ": a right on the cluster is missing"
	}
	return s
}

func codeErr(code int16, format string, args ...any) error {
	if code == codeNone {
		return nil
	}
	return &CodeError{What: fmt.Sprintf(format, args...), Code: code}
}
