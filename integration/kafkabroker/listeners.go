package kafkabroker

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// listenerName is a name of a listener.
var listenerName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// listener is a listener besides the broker's own two.
type listener struct {
	name, protocol string
	port           int
}

func (l listener) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port)) }

// pickListeners gives each of Options.Listeners a port, other than those taken.
func pickListeners(want map[string]string, pick func() (int, error), taken ...int) ([]listener, error) {
	var all []listener
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !listenerName.MatchString(name) || name == "PLAINTEXT" || name == "CONTROLLER" {
			return nil, fmt.Errorf("option Listeners[%q]: must be a name in capitals, other than PLAINTEXT and CONTROLLER", name)
		}
		for probe := 0; ; probe++ {
			port, err := pick()
			if err != nil {
				return nil, err
			}
			if !slices.Contains(taken, port) {
				taken = append(taken, port)
				all = append(all, listener{name: name, protocol: want[name], port: port})
				break
			}
			if probe == maxPortProbes {
				return nil, fmt.Errorf("no free port for listener %s", name)
			}
		}
	}
	return all, nil
}

// addListeners adds listeners to a configuration that has the broker's own.
func addListeners(all map[string]string, more []listener) {
	for _, l := range more {
		at := "," + l.name + "://" + l.address()
		all["listeners"] += at
		all["advertised.listeners"] += at
		all["listener.security.protocol.map"] = strings.TrimPrefix(all["listener.security.protocol.map"]+","+l.name+":"+l.protocol, ",")
	}
}

// AddrOf is the address of a listener of Options.Listeners; empty for a name that is not among them.
func (b *Broker) AddrOf(name string) string {
	for _, l := range b.place.more {
		if l.name == name {
			return l.address()
		}
	}
	return ""
}
