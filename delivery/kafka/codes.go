package kafka

import (
	"fmt"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"ankka-flow/delivery/kafka/group"
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
	codeInvalidTopic           int16 = 17
	codeTopicAuthorization     int16 = 29
	codeGroupAuthorization     int16 = 30
	codeClusterAuthorization   int16 = 31
	codeUnsupportedMechanism   int16 = 33
	codeIllegalSASLState       int16 = 34
	codeUnsupportedVersion     int16 = 35
	codeTopicExists            int16 = 36
	codePolicyViolation        int16 = 44
	codeSecurityDisabled       int16 = 54
	codeKafkaStorage           int16 = 56
	codeAuthenticationFailed   int16 = 58
	codeFencedLeaderEpoch      int16 = 74
	codeUnknownLeaderEpoch     int16 = 75
	codeUnsupportedCompression int16 = 76
	codeOffsetNotAvailable     int16 = 78
	codeUnstableOffsetCommit   int16 = 88
)

// CodeError is a Kafka error code that a broker answered with.
type CodeError struct {
	// What was asked, such as "listing offsets of topic carts".
	What string
	// Code is Kafka's number, never 0.
	Code int16
	// Principal is who the broker takes us for, such as "User:bob"; empty: not
	// known.
	Principal string
}

// Error names the code as people search for it, and its number.
func (e *CodeError) Error() string {
	return fmt.Sprintf("%s: %s", e.What, withPrincipal(codeText(e.Code), e.Principal))
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
		s += ": the user needs READ on the topic (on an outlet's WRITE), or DESCRIBE to see it"
	case codeGroupAuthorization:
		s += ": the user needs READ on the group"
	case codeClusterAuthorization:
		s += ": the user needs a right on the cluster"
	}
	return s
}

// codeErr makes an error of a code, with who lacks what; nil for none.
func (c *Client) codeErr(code int16, format string, args ...any) error {
	if code == codeNone {
		return nil
	}
	return &CodeError{What: fmt.Sprintf(format, args...), Code: code, Principal: c.principal()}
}

// withPrincipal puts the user's name into a text about a right.
func withPrincipal(text, principal string) string {
	if principal == "" {
		return text
	}
	return strings.Replace(text, "the user ", principal+" ", 1)
}

// groupText is the code's text from a group, with group and user.
func (c *Client) groupText(code int16, groupID, topic string) string {
	text := withPrincipal(group.CodeText(code), c.principal())
	text = strings.Replace(text, "on the group", "on group "+groupID, 1)
	return strings.Replace(text, "on the topic", "on topic "+topic, 1)
}

// topicText is the code's text about a topic, with topic and user.
func (c *Client) topicText(code int16, topic string) string {
	return strings.Replace(withPrincipal(codeText(code), c.principal()), "on the topic", "on topic "+topic, 1)
}
