package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	dialTimeout    = 5 * time.Second
	callTimeout    = 60 * time.Second
	lookupTimeout  = 30 * time.Second
	lookupPause    = 50 * time.Millisecond
	answerBytesMax = 256 << 20
)

func joinHostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// client is one connection with one request in flight: it prepares a load and is never measured.
type client struct {
	conn   *net.TCPConn
	sealed *sealed // nil: in the clear
	next   int32
}

func dial(address string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn.(*net.TCPConn)}
	if err := c.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return nil, err
	}
	if c.sealed, err = wrap(c.conn, address); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) close() { c.conn.Close() }

// stream is what requests are written to.
func (c *client) stream() net.Conn {
	if c.sealed != nil {
		return c.sealed.conn
	}
	return c.conn
}

// call sends a frame and returns the answer, which begins at its header.
func (c *client) call(frame []byte) ([]byte, error) {
	c.next++
	setCorrelation(frame, c.next)
	if err := c.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return nil, err
	}
	stream := c.stream()
	if _, err := stream.Write(frame); err != nil {
		return nil, err
	}
	var head [sizeOfLength]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > answerBytesMax {
		return nil, fmt.Errorf("answer of %d bytes", size)
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(stream, answer); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(answer)); got != c.next {
		return nil, fmt.Errorf("answer %d to request %d", got, c.next)
	}
	return answer, nil
}

// detach gives the connection up as a non-blocking descriptor for an engine.
func (c *client) detach() (int, error) {
	file, err := c.conn.File()
	if err != nil {
		return -1, err
	}
	defer file.Close()
	descriptor, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		return -1, err
	}
	c.conn.Close()
	if c.sealed != nil {
		c.sealed.carrier.fd = descriptor
	}
	if err := syscall.SetNonblock(descriptor, true); err != nil {
		return -1, err
	}
	return descriptor, syscall.SetsockoptInt(descriptor, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
}

// ask sends a frame to the bootstrap addresses in turn until accept takes an answer.
func ask(bootstrap, what string, frame []byte, accept func([]byte) (bool, error)) error {
	addresses := strings.Split(bootstrap, ",")
	deadline := time.Now().Add(lookupTimeout)
	var last error
	for turn := 0; time.Now().Before(deadline); turn++ {
		c, err := dial(addresses[turn%len(addresses)])
		if err == nil {
			var answer []byte
			if answer, err = c.call(frame); err == nil {
				var fine bool
				if fine, err = accept(answer); fine {
					c.close()
					return nil
				}
			}
			c.close()
		}
		if err != nil {
			last = err
		}
		time.Sleep(lookupPause)
	}
	return fmt.Errorf("%s not within %v: %v", what, lookupTimeout, last)
}

// findCoordinators returns group -> its coordinator.
func findCoordinators(bootstrap string, groups []string) (map[string]coordinator, error) {
	const atOnce = 500
	all := map[string]coordinator{}
	for len(groups) > 0 {
		some := groups[:min(atOnce, len(groups))]
		groups = groups[len(some):]
		err := ask(bootstrap, "coordinators", findRequest(some), func(answer []byte) (bool, error) {
			found, err := readFind(answer)
			for group, c := range found {
				if c.code != 0 {
					return false, fmt.Errorf("coordinator of %s: error %d", group, c.code)
				}
				all[group] = c
			}
			return err == nil && len(found) == len(some), err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func findLeaders(bootstrap, topic string, partitions int) (map[int32]string, error) {
	var leaders map[int32]string
	err := ask(bootstrap, "leaders of "+topic, metadataRequest(topic), func(answer []byte) (fine bool, err error) {
		leaders, err = readMetadata(answer)
		return err == nil && len(leaders) >= partitions, err
	})
	return leaders, err
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "loadgen:", err)
	os.Exit(1)
}
