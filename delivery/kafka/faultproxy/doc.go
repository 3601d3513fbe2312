// Package faultproxy stands between a client and the brokers of a Kafka
// cluster, for tests: it sees every request and decides, as the test says, what
// becomes of it: whether the broker gets it, whether the client gets an answer,
// and what the answer says about each partition. So a test knows as a fact
// whether bytes were appended, whatever the client was told.
//
// It decides nothing by itself: without a plan every byte passes unchanged, but
// for the brokers' addresses in the answers to Metadata and FindCoordinator,
// which become the proxy's own. It does not speak TLS; SASL passes through. It
// must not be part of the program.
//
// # Goroutines
//
//   - One for each broker accepts connections.
//   - Two for each connection, one a direction.
//
// Close ends and awaits all of them.
package faultproxy
