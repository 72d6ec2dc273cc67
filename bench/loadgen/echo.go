package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"syscall"
)

// The compiled echo server: the generator's rate against it is the generator's own limit. Only complete frames are
// sent back, as a server of the protocol would answer them.

func serveEcho(port, threads int) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	pollers := make([]*echoThread, threads)
	for n := range pollers {
		poll, err := newPoller()
		if err != nil {
			return err
		}
		pollers[n] = &echoThread{poll: poll, accepted: make(chan *echoPeer, 1024)}
		go pollers[n].run()
	}
	fmt.Println("ready")
	for turn := 0; ; turn++ {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		fd, err := (&client{conn: conn.(*net.TCPConn)}).detach()
		if err != nil {
			return err
		}
		t := pollers[turn%threads]
		t.accepted <- &echoPeer{fd: fd, in: make([]byte, readBytes)}
	}
}

type echoPeer struct {
	fd   int
	in   []byte
	have int
}

type echoThread struct {
	poll     *poller
	accepted chan *echoPeer
	peers    map[int]*echoPeer
}

func (t *echoThread) run() {
	runtime.LockOSThread()
	t.peers = map[int]*echoPeer{}
	for {
		t.take()
		events, err := t.poll.wait(idlePollMs / 10)
		if err != nil {
			fail(err)
		}
		for _, event := range events {
			peer := t.peers[int(event.Fd)]
			if err := peer.echo(); err != nil {
				syscall.Close(peer.fd)
				delete(t.peers, peer.fd)
			}
		}
	}
}

func (t *echoThread) take() {
	for {
		select {
		case peer := <-t.accepted:
			t.peers[peer.fd] = peer
			if err := t.poll.watch(peer.fd, peer.fd, false, syscall.EPOLL_CTL_ADD); err != nil {
				fail(err)
			}
		default:
			return
		}
	}
}

func (p *echoPeer) echo() error {
	n, err := readSome(p.fd, p.in[p.have:])
	if err != nil {
		return err
	}
	p.have += n
	whole := 0
	for p.have-whole >= sizeOfLength {
		size := sizeOfLength + int(binary.BigEndian.Uint32(p.in[whole:]))
		if size > readBytes {
			return fmt.Errorf("frame of %d bytes", size)
		}
		if p.have-whole < size {
			break
		}
		whole += size
	}
	for sent := 0; sent < whole; {
		n, err := writeSome(p.fd, p.in[sent:whole])
		if err != nil {
			return err
		}
		sent += n
	}
	p.have = copy(p.in, p.in[whole:p.have])
	return nil
}
