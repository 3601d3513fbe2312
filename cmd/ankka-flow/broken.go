//go:build !broken_early && !broken_order && !broken_skip

package main

import "ankka-flow/delivery/driver"

// breakRule does nothing. A program that is built with one of the tags breaks a
// rule of delivery on purpose: the soak's checker is tested by such programs.
func breakRule(*driver.Config) {}
