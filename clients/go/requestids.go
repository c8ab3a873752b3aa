package leasebroker

import (
	"crypto/rand"
	"fmt"
)

// newRequestID returns a random UUID of version 4.
func newRequestID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // It never fails: crypto/rand ends the process instead.
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
