package main

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Raw descriptors: Go's own poller would cost a failed read for every answer.

func readSome(fd int, into []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
	switch errno {
	case 0:
		if n == 0 {
			return 0, fmt.Errorf("the server closed a connection")
		}
		return int(n), nil
	case syscall.EAGAIN, syscall.EINTR:
		return 0, nil
	}
	return 0, errno
}

func writeSome(fd int, data []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	switch errno {
	case 0:
		return int(n), nil
	case syscall.EAGAIN, syscall.EINTR:
		return 0, nil
	}
	return 0, errno
}

type poller struct {
	fd     int
	events []syscall.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return &poller{fd: fd, events: make([]syscall.EpollEvent, 256)}, err
}

// watch a descriptor; key comes back with its events.
func (p *poller) watch(fd, key int, writable bool, operation int) error {
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(key)}
	if writable {
		event.Events |= syscall.EPOLLOUT
	}
	return syscall.EpollCtl(p.fd, operation, fd, &event)
}

func (p *poller) wait(timeoutMs int) ([]syscall.EpollEvent, error) {
	n, err := syscall.EpollWait(p.fd, p.events, timeoutMs)
	if err == syscall.EINTR {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.events[:n], nil
}

// alarm is a timerfd: epoll's own timeout counts in milliseconds, too coarse for a schedule.
type alarm struct{ fd int }

const clockMonotonic, timerNonblock = 1, syscall.O_NONBLOCK

func newAlarm() (*alarm, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, timerNonblock, 0)
	if errno != 0 {
		return nil, errno
	}
	return &alarm{fd: int(fd)}, nil
}

// in sets the alarm to this many nanoseconds from now (at least one).
func (a *alarm) in(ns int64) error {
	ns = max(ns, 1)
	spec := [4]int64{0, 0, ns / 1e9, ns % 1e9}
	_, _, errno := syscall.RawSyscall6(
		syscall.SYS_TIMERFD_SETTIME, uintptr(a.fd), 0, uintptr(unsafe.Pointer(&spec[0])), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func (a *alarm) silence() {
	var count [8]byte
	syscall.RawSyscall(syscall.SYS_READ, uintptr(a.fd), uintptr(unsafe.Pointer(&count[0])), 8)
}
