package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"os"
)

// TLS of the generator: chain and host name are verified, and no session is resumed, so that every handshake is a whole
// one. An engine goes on with one thread and raw descriptors: a tls.Conn reads and writes through a carrier, which
// blocks while a load is prepared and never after.

// encryption of every connection; nil: in the clear.
var encryption *tls.Config

// addTLS is the flag of commands that connect; encrypt is called when flags are parsed.
func addTLS(f *flag.FlagSet) *string {
	return f.String("ca", "", "PEM file of the CA to trust: connect by TLS")
}

func encrypt(ca string) error {
	encryption = nil
	if ca == "" {
		return nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate", ca)
	}
	encryption = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true}
	return nil
}

// later says that there is nothing to read now. It is temporary, so that a tls.Conn keeps what it has of a record.
type later struct{}

func (later) Error() string   { return "nothing to read now" }
func (later) Timeout() bool   { return true }
func (later) Temporary() bool { return true }

// carrier is what is below a tls.Conn: a connection that blocks, later a descriptor that does not.
type carrier struct {
	*net.TCPConn
	fd  int // -1 while it blocks
	out []byte
}

func (c *carrier) Read(into []byte) (int, error) {
	if c.fd < 0 {
		return c.TCPConn.Read(into)
	}
	n, err := readSome(c.fd, into)
	if n == 0 && err == nil {
		return 0, later{}
	}
	return n, err
}

// Write keeps the bytes for the engine once nothing blocks.
func (c *carrier) Write(data []byte) (int, error) {
	if c.fd < 0 {
		return c.TCPConn.Write(data)
	}
	c.out = append(c.out, data...)
	return len(data), nil
}

// sealed is one TLS connection of an engine.
type sealed struct {
	conn    *tls.Conn
	carrier *carrier
}

// read what there is, 0 bytes when there is nothing now.
func (s *sealed) read(into []byte) (int, error) {
	n, err := s.conn.Read(into)
	if _, none := err.(later); none {
		return n, nil
	}
	return n, err
}

// wrap handshakes, unless connections are in the clear.
func wrap(conn *net.TCPConn, address string) (*sealed, error) {
	if encryption == nil {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config := encryption.Clone()
	config.ServerName = host
	below := &carrier{TCPConn: conn, fd: -1}
	over := tls.Client(below, config)
	return &sealed{conn: over, carrier: below}, over.Handshake()
}
