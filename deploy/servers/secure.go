package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly/store/conn"
)

// makeSecrets creates a user for a new server and, if it is secure, a certificate for
// the loopback addresses, signed by a CA of its own.
func makeSecrets(s *server, now time.Time) error {
	var password [16]byte
	_, _ = rand.Read(password[:]) // never fails
	s.Secrets = secrets{User: "mayfly", Password: hex.EncodeToString(password[:])}
	if !s.Secure {
		return nil
	}
	s.Secrets.Authority = s.pem("authority")
	return makeCertificates(s, now)
}

// pem returns the path of a PEM file of the server: authority, certificate, key, or
// both (certificate and key).
func (s server) pem(what string) string { return filepath.Join(s.folder(), what+".pem") }

func makeCertificates(s *server, now time.Time) error {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Mayfly test servers"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: s.Name},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost"},
	}
	for i := range byte(9) {
		leaf.IPAddresses = append(leaf.IPAddresses, net.IPv4(127, 0, 0, i+1))
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &leafKey.PublicKey, authorityKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return err
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER})
	for name, text := range map[string][]byte{
		"authority":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authorityDER}),
		"certificate": certificate, "key": key, "both": slices.Concat(key, certificate),
	} {
		if err := os.WriteFile(s.pem(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tls returns the TLS configuration for clients; nil if the server is not secure.
func (s server) tls() (*tls.Config, error) {
	if !s.Secure {
		return nil, nil
	}
	ca, err := os.ReadFile(s.Secrets.Authority)
	if err != nil {
		return nil, err
	}
	return conn.TLS{Enabled: true, CA: ca}.Config()
}

// credentials returns the variables that a client of a secure server needs besides the
// address.
func (s server) credentials(name string) []variable {
	if !s.Secure {
		return nil
	}
	return []variable{{name + "_USER", s.Secrets.User}, {name + "_PASSWORD", s.Secrets.Password}, {name + "_CA", s.Secrets.Authority}}
}
