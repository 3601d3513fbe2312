// Package names has Kafka's rules for the names of topics and groups, so that
// whatever makes or uses one (the configuration, a plan, the embedded broker)
// refuses the same. It is pure and has no goroutines.
package names
