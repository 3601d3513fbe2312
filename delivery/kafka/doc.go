// Package kafka is the broker as the driver sees it: records in, records out,
// positions committed, all told in delivery's events. It decides how to ask
// Kafka (which broker, when again, in which order) and nothing about what is
// delivered or committed; that is the pure core's, in package delivery.
//
// kafka-go contributes its Transport, which pools connections, and its SASL
// mechanisms. The steps of a connection (TCP, TLS, SASL) are taken in
// connect.go, so that each has its time and its failure a likely cause. Every
// request and answer is bytes of our own, carried by protocol.RawExchanger,
// since kafka-go's own data path breaks R1, R8, R9 and R10. Each broker address has a Transport of its own and routing follows our
// own metadata, so that a new leader is used at once.
//
// It must not: skip a record, create a topic by reading, commit what it was
// not told to commit, or keep a record after the batch that holds it was
// dropped.
//
// # Goroutines
//
//   - Client: one refreshes the metadata (metadata.go); Close ends and awaits
//     it. Behind each connection kafka-go runs one, and one for each Transport;
//     Close cuts the connections and awaits those of the connections, the
//     others end with the client's context.
//   - Consumer: one runs the membership (consumer.go); one for each request of
//     it that is under way, each bounded by its timeout (membership.go,
//     starts.go); two for each leader fetch, and one for each offset that is
//     being confirmed (fetch.go). Leave and Close end and await all of them.
//   - Producer: see producer.go; Close ends and awaits all of them.
package kafka
