//go:build kafka

package main

import (
	"strings"
	"testing"
)

// The table of what an answer to a write means, on the real cluster: what the
// test changes is the answer, and whether the brokers get the bytes.
func TestKafka_R9_WhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	everyAnswer(t, strings.Split(kafkaCluster(t).brokers, ","))
}
