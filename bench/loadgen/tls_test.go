package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// issue a certificate of its own for an address; the file that trusts it, too.
func issue(t *testing.T, address string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "echo"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)},
	}
	data, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{data}, PrivateKey: key}, file
}

// torn writes every record in three pieces, so that the generator sees halves of records and of their headers.
type torn struct{ net.Conn }

func (c torn) Write(data []byte) (int, error) {
	for at, to := 0, 0; at < len(data); at = to {
		to = min(at+1+len(data)/2, len(data))
		if _, err := c.Conn.Write(data[at:to]); err != nil {
			return at, err
		}
		time.Sleep(50 * time.Microsecond)
	}
	return len(data), nil
}

func tlsEcho(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			conn := tls.Server(torn{raw}, &tls.Config{Certificates: []tls.Certificate{certificate}})
			go func() {
				defer conn.Close()
				buffer := make([]byte, 1<<16)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					if _, err := conn.Write(buffer[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestOverTLSEveryAnswerCountsHoweverItsRecordsAreTorn(t *testing.T) {
	certificate, file := issue(t, "127.0.0.1")
	if err := encrypt(file); err != nil {
		t.Fatal(err)
	}
	defer encrypt("")
	config := engineConfig{depth: 20, window: 300 * time.Millisecond, echoed: true}
	total := drivenTally(t, tlsEcho(t, certificate), config, 0)
	if total.good < 100 || total.unanswered != 0 || len(total.errors) != 0 {
		t.Fatalf("%d good, %d unanswered, errors %v", total.good, total.unanswered, total.errors)
	}
}

func TestAServerThatIsNotTrustedOrHasAnotherNameIsRefused(t *testing.T) {
	_, foreign := issue(t, "127.0.0.1")
	own, trusted := issue(t, "127.0.0.2")
	defer encrypt("")
	for _, file := range []string{foreign, trusted} {
		if err := encrypt(file); err != nil {
			t.Fatal(err)
		}
		if c, err := dial(tlsEcho(t, own)); err == nil {
			c.close()
			t.Fatal("taken")
		}
	}
}
