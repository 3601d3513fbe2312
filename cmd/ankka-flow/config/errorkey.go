package config

import (
	"math"
	"strconv"
	"strings"
)

// errorsSection is the section of the settings by which a process treats the
// errors of single records. They may also be written with it in front, as Kafka
// Connect has them.
const errorsSection = "errors"

// deadLetterTopic may be empty: that disables dead letters.
const deadLetterTopic = "deadletterqueue.topic.name"

// errorKeys are the rows of the table for errors: those of KIP-298 with their
// names, units and domains, and ours. None has a default here: what is not
// configured is decided by the streamlet's own policy.
func errorKeys() []Key {
	row := func(name, meaning string, check func(string) string) Key {
		return Key{
			Section: errorsSection, Name: name, Env: EnvironmentName(errorsSection + "-" + strings.ReplaceAll(name, ".", "-")),
			Kind: Text, Empty: name == deadLetterTopic, Meaning: meaning, Check: check,
		}
	}
	return []Key{
		row("retry.timeout", "how long a record is tried again after a retriable error, in milliseconds from its first attempt; -1: for ever (default: 0)", wholeIn(-1, math.MaxInt64)),
		row("retry.delay.max.ms", "longest wait between two attempts, in milliseconds; the first is 300 and each is twice the one before (default: 60000)", wholeIn(1, math.MaxInt64)),
		row("retry.max.attempts", "most attempts, the first counted; 0: not limited (default: 0)", wholeIn(0, math.MaxInt64)),
		row("tolerance", "none: an error fails its batch. all: its record is skipped, or goes to the dead-letter topic (default: none)", oneOf("none", "all")),
		row("tolerance.limit.errors", "most errors tolerated in the window; -1: not limited (default: -1)", wholeIn(-1, mostErrors)),
		row("tolerance.limit.window.ms", "the window of the limits, in milliseconds (default: 60000)", wholeIn(1, math.MaxInt64)),
		row("tolerance.limit.run", "most errors tolerated without a record handled between them; -1: not limited (default: -1)", wholeIn(-1, mostErrors)),
		row("tolerance.limit.ratio", "largest part of the window's records that may be errors, judged from 20 records on; 1: not limited (default: 1)", checkRatio),
		row("exhausted", "where an error is not tolerated: fail the batch, or hold the partition and try for ever at the longest wait (default: fail)", oneOf("fail", "hold")),
		row("deliveries.max", "how often the process may be gone after it had got a record alone, before that counts as the record's error; 0: as often as it is (default: 0)", wholeIn(2, mostErrors, 0)),
		row("log.enable", "log every error with its topic, partition and offset (default: false)", checkBoolean),
		row("log.include.messages", "and with the record's key, value and headers (default: false)", checkBoolean),
		row(deadLetterTopic, "topic of the outlet dead-letter, which also enables it; set to \"\", it is disabled (default: the streamlet's policy decides)", checkTopicOrNone),
		row("deadletterqueue.topic.replication.factor", "replication factor with which that topic is made where it is missing, at the start (default: 3, on the embedded broker 1)", wholeIn(1, math.MaxInt16)),
		row("deadletterqueue.context.headers.enable", "say by headers of a dead letter where it comes from and why (default: false)", checkBoolean),
	}
}

// mostErrors is the largest count that a limit may allow.
const mostErrors = 1_000_000

// wholeIn judges a whole number: within a range, or one of those besides it.
func wholeIn(least, most int64, besides ...int64) func(string) string {
	domain := strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10)
	for i := len(besides) - 1; i >= 0; i-- {
		domain = strconv.FormatInt(besides[i], 10) + ", or " + domain
	}
	return func(text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		good := err == nil && !strings.HasPrefix(text, "+")
		for _, other := range besides {
			if good && n == other {
				return ""
			}
		}
		if !good || n < least || n > most {
			return "it is a whole number without a unit, " + domain
		}
		return ""
	}
}

func oneOf(names ...string) func(string) string {
	return func(text string) string {
		if !contains(names, text) {
			return "it is " + strings.Join(names, " or ")
		}
		return ""
	}
}

// checkBoolean judges a truth value as the Java client reads it.
func checkBoolean(text string) string {
	if lower := strings.ToLower(text); lower != "true" && lower != "false" {
		return "it is true or false"
	}
	return ""
}

func checkRatio(text string) string {
	const problem = "it is a number from 0 to 1, such as 0.25"
	if strings.Trim(text, "0123456789.") != "" || strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") {
		return problem
	}
	if n, err := strconv.ParseFloat(text, 64); err != nil || n < 0 || n > 1 {
		return problem
	}
	return ""
}

func checkTopicOrNone(text string) string {
	if text == "" {
		return ""
	}
	return checkTopic(text)
}

// shortError takes the second "errors." out of a path, so that both spellings of a
// setting are one.
func shortError(path string) string {
	if rest, ok := strings.CutPrefix(path, errorsSection+"."+errorsSection+"."); ok {
		return errorsSection + "." + rest
	}
	return path
}
