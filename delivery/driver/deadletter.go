package driver

import (
	"fmt"
	"slices"
	"strconv"
)

// DeadLetterPort is the outlet that gets the records which a process's error policy
// gives up. To the supervisor it is an outlet as any other, but for its topic: that
// is made where it is missing.
const DeadLetterPort = "dead-letter"

// The settings of Errors that the supervisor acts on; the names are those of KIP-298.
const (
	DeadLetterTopic    = "deadletterqueue.topic.name"
	DeadLetterReplicas = "deadletterqueue.topic.replication.factor"
)

// defaultDeadLetterReplicas is the KIP's replication factor.
const defaultDeadLetterReplicas = 3

// deadLetterTopic is the topic that the configuration gives to the dead-letter
// outlet, or "", and what is wrong with that.
func (declared *Declared) deadLetterTopic(outlets []string) (topic, problem string) {
	topic = declared.Errors[DeadLetterTopic]
	if topic == "" {
		return declared.Topics[DeadLetterPort], ""
	}
	if !slices.Contains(outlets, DeadLetterPort) {
		return "", fmt.Sprintf("errors.%s is %s, but the streamlet has no outlet %q for it; it has %s. Declare one (in Python, DeadLetterOutlet()), or take the setting out", DeadLetterTopic, topic, DeadLetterPort, list(outlets))
	}
	if other := declared.Topics[DeadLetterPort]; other != "" && other != topic {
		return topic, fmt.Sprintf("outlet %s has two topics: %s, and %s by errors.%s; keep one", DeadLetterPort, other, topic, DeadLetterTopic)
	}
	return topic, ""
}

// deadLetterReplicas is the replication factor with which the topic of an outlet is
// made where it is missing; 0: it is not made. The setting was judged before.
func (declared *Declared) deadLetterReplicas(port string) int16 {
	topic, set := declared.Errors[DeadLetterTopic]
	if port != DeadLetterPort || set && topic == "" {
		return 0
	}
	if n, err := strconv.ParseInt(declared.Errors[DeadLetterReplicas], 10, 16); err == nil && n > 0 {
		return int16(n)
	}
	return defaultDeadLetterReplicas
}
