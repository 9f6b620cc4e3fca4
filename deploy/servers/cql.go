package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The few words of Cassandra's native protocol (version 4) that tell whether a
// node really answers. A client library would be a dependency of a tool that
// stands alone.
const (
	cqlError        = 0x00
	cqlStartup      = 0x01
	cqlReady        = 0x02
	cqlAuthenticate = 0x03
	cqlOptions      = 0x05
	cqlSupported    = 0x06
	cqlQuery        = 0x07
	cqlResult       = 0x08
	cqlAuthResponse = 0x0F
	cqlAuthSuccess  = 0x10

	consistencyOne = 0x0001
	consistencyAll = 0x0005

	cqlRows         = 2
	cqlSkipMetadata = 0x02
	cqlMorePages    = 0x02
	cqlNoMetadata   = 0x04
	mostAnswer      = 1 << 20
)

type cqlConn struct{ net.Conn }

func dialCQL(ctx context.Context, s server, n node) (*cqlConn, error) {
	c, err := dial(ctx, s, n.at("cql"))
	if err != nil {
		return nil, err
	}
	return &cqlConn{c}, nil
}

// ask sends one frame and reads one; another answer than the wanted is an error.
func (c *cqlConn) ask(operation byte, body []byte, wanted ...byte) ([]byte, error) {
	frame := append([]byte{0x04, 0, 0, 0, operation}, binary.BigEndian.AppendUint32(nil, uint32(len(body)))...)
	if _, err := c.Write(append(frame, body...)); err != nil {
		return nil, err
	}
	var head [9]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[5:])
	if head[0] != 0x84 || length > mostAnswer {
		return nil, fmt.Errorf("not an answer in CQL: % x", head)
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(c, answer); err != nil {
		return nil, err
	}
	if head[4] == cqlError && len(answer) >= 6 {
		return nil, fmt.Errorf("CQL error %#x: %s", binary.BigEndian.Uint32(answer), answer[6:])
	}
	if !bytes.Contains(wanted, head[4:5]) {
		return nil, fmt.Errorf("CQL answer %#x to request %#x", head[4], operation)
	}
	return append([]byte{head[4]}, answer...), nil
}

func (c *cqlConn) startup(user, password string) error {
	body := binary.BigEndian.AppendUint16(nil, 1)
	for _, word := range []string{"CQL_VERSION", "3.0.0"} {
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(word))), word...)
	}
	answer, err := c.ask(cqlStartup, body, cqlReady, cqlAuthenticate)
	if err != nil || answer[0] == cqlReady {
		return err
	}
	plain := "\x00" + user + "\x00" + password
	_, err = c.ask(cqlAuthResponse, append(binary.BigEndian.AppendUint32(nil, uint32(len(plain))), plain...), cqlAuthSuccess)
	return err
}

// query returns the cells of the rows, as bytes.
func (c *cqlConn) query(text string, consistency uint16) ([][][]byte, error) {
	body := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	body = append(binary.BigEndian.AppendUint16(body, consistency), cqlSkipMetadata)
	answer, err := c.ask(cqlQuery, body, cqlResult)
	if err != nil {
		return nil, err
	}
	return parseRows(answer[1:])
}

func parseRows(result []byte) ([][][]byte, error) {
	in := bytes.NewReader(result)
	var kind, flags, columns, count int32
	if err := binary.Read(in, binary.BigEndian, &kind); err != nil || kind != cqlRows {
		return nil, err // a schema change, for one, has no rows
	}
	for _, v := range []*int32{&flags, &columns, &count} {
		if err := binary.Read(in, binary.BigEndian, v); err != nil {
			return nil, err
		}
	}
	if flags&cqlNoMetadata == 0 || flags&cqlMorePages != 0 {
		return nil, fmt.Errorf("rows with flags %#x", flags)
	}
	var rows [][][]byte
	for range count {
		var row [][]byte
		for range columns {
			cell, err := readCell(in)
			if err != nil {
				return nil, err
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func readCell(in *bytes.Reader) ([]byte, error) {
	var length int32
	if err := binary.Read(in, binary.BigEndian, &length); err != nil {
		return nil, err
	}
	if length < 0 {
		return nil, nil
	}
	if int(length) > in.Len() {
		return nil, errors.New("a cell is longer than its answer")
	}
	cell := make([]byte, length)
	_, err := io.ReadFull(in, cell)
	return cell, err
}
