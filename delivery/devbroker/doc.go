// Package devbroker is the embedded broker: a Kafka broker in this process, for
// development, kept in a data directory.
//
// It decides where the broker listens, that what it acknowledges is on disk
// (every batch is synced, so that a kill -9 of the supervisor loses nothing
// that was confirmed), and that one data directory has one broker: a lock file
// says that it lives, an address file beside it where. It must not be chosen by
// itself: whether a run may use it is the command's decision (never
// silently as PID 1, in Kubernetes or with a configuration file).
//
// Goroutines: those of kfake, which Broker.Close ends and awaits.
package devbroker
