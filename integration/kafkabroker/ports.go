package kafkabroker

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// portLow and portHigh bound the ports of brokers, below the ephemeral range (32768 and up on Linux): there an
	// outgoing connection of anybody could take the port between our look and the broker's bind.
	portLow, portHigh = 20000, 32767
	// maxPortProbes bounds the search for one free port.
	maxPortProbes = 200
)

// freePort returns a port of the loopback interface that nobody listened on a moment ago.
func freePort() (int, error) {
	for range maxPortProbes {
		port := portLow + rand.IntN(portHigh-portLow+1)
		if isFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d in %d tries", portLow, portHigh, maxPortProbes)
}

// isFree reports whether the port can be bound.
func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// pickPorts returns two different ports out of pick.
func pickPorts(pick func() (int, error)) (port, controllerPort int, err error) {
	if port, err = pick(); err != nil {
		return 0, 0, err
	}
	for range maxPortProbes {
		if controllerPort, err = pick(); err != nil || controllerPort != port {
			return port, controllerPort, err
		}
	}
	return 0, 0, fmt.Errorf("no second free port beside %d", port)
}
