package localfleet

import (
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/aipfleet/aipfleet/pkg/fleet"
)

// Ports are where the processes listen on loopback. A replica's endpoint is a part of
// its declared identity, so they are chosen once in a fleet's life.
type Ports struct {
	Postgres  int   `json:"postgres"`
	Serve     int   `json:"serve"`
	Lifecycle int   `json:"lifecycle"`
	Hosts     []int `json:"hosts"`
}

// The range from which ports are taken lies below the one from which systems give
// ports to outgoing connections: a port that is free while its process restarts is
// not lent to a stranger.
const (
	firstPort = 18000
	lastPort  = 31000
)

// choosePorts finds free ports next to each other where it can.
func choosePorts(hosts int) (Ports, error) {
	var free []int
	start := firstPort + rand.IntN(lastPort-firstPort)
	for i := range lastPort - firstPort {
		port := firstPort + (start-firstPort+i)%(lastPort-firstPort)
		if portFree(port) {
			free = append(free, port)
		}
		if len(free) == hosts+3 {
			return Ports{Postgres: free[0], Serve: free[1], Lifecycle: free[2], Hosts: free[3:]}, nil
		}
	}
	return Ports{}, fleet.Errorf(fleet.Unavailable, "dev.ports", "there are not enough free ports on 127.0.0.1").
		Because("%d are needed between %d and %d", hosts+3, firstPort, lastPort)
}

func portFree(port int) bool {
	l, err := net.Listen("tcp4", address(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func url(port int) string { return "http://" + address(port) }
