package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// portLow and portHigh bound the ports given out, below the ephemeral range (32768 and up on Linux): there an outgoing
	// connection of anybody could take a port while the process that it belongs to is down.
	portLow, portHigh = 12000, 19999
	// maxPortProbes bounds the search for one free port.
	maxPortProbes = 200
)

// Address returns an address of the loopback interface whose port nobody listened on a moment ago. The caller keeps it over
// the restarts of the process that listens there.
func Address() (string, error) {
	for range maxPortProbes {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(portLow+rand.IntN(portHigh-portLow+1)))
		if l, err := net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("no free port between %d and %d in %d tries", portLow, portHigh, maxPortProbes)
}
