//go:build !unix

package kafka

import "net"

// hungUp cannot be asked here: the write or the read will tell.
func hungUp(net.Conn) bool { return false }
