//go:build kafka

package main

import (
	"context"
	"strings"
	"testing"
)

// The table of what an answer to a write means, on the real cluster: what the
// test changes is the answer, and whether the brokers get the bytes.
func TestKafka_R9_WhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	everyAnswer(t, strings.Split(kafkaCluster(t).brokers, ","))
}

// The faults of writes, on the real cluster.
func TestKafka_WritesThroughFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, context.Context, []string){
		"case 57": refusedAndLost, "45": behindRefused, "split": splitTogether, "cuts": cutAgainAndAgain, "case 61": neverAnswers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kafkaCluster(t)
			test(t, c.ctx, strings.Split(c.brokers, ","))
		})
	}
}
