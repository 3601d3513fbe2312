package main

import (
	"errors"
	"strconv"
)

// anyPartition is a partitionFlag that was not given.
const anyPartition partitionFlag = -1

// partitionFlag is a partition's number as a flag. Its own default is no
// number, so that help shows none.
type partitionFlag int32

// String follows pflag.Value.
func (p *partitionFlag) String() string {
	if *p < 0 {
		return ""
	}
	return strconv.Itoa(int(*p))
}

// Set follows pflag.Value.
func (p *partitionFlag) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return errors.New("it is the number of a partition, from 0")
	}
	*p = partitionFlag(n)
	return nil
}

// Type follows pflag.Value; help shows it.
func (*partitionFlag) Type() string { return "number" }

// check says whether the topic has the partition.
func (p partitionFlag) check(topic string, partitions int32) error {
	if int32(p) >= partitions {
		return misuse("--partition %d: topic %s has partitions 0 to %d", p, topic, partitions-1)
	}
	return nil
}

// countFlag is a number of things, at least 1, as a flag; 0: not given.
type countFlag int

// String follows pflag.Value.
func (c *countFlag) String() string {
	if *c == 0 {
		return ""
	}
	return strconv.Itoa(int(*c))
}

// Set follows pflag.Value.
func (c *countFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("it is a number from 1")
	}
	*c = countFlag(n)
	return nil
}

// Type follows pflag.Value; help shows it.
func (*countFlag) Type() string { return "number" }
