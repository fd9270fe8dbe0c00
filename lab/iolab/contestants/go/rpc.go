package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"unicode/utf8"
)

const (
	callBytesMax = 1 << 20
	targetMax    = 10_000_000
)

var errNotACall = errors.New("a request is an object of target, a whole number, and text, a string")

// rpc answers calls: a frame is a big-endian length of four bytes, then JSON. The first bad call ends the connection.
func rpc(connection net.Conn) error {
	reader := bufio.NewReader(connection)
	var call, reply []byte
	for {
		var header [4]byte
		if _, err := io.ReadFull(reader, header[:]); err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(header[:])
		if length == 0 || length > callBytesMax {
			return refuse(connection, fmt.Errorf("a request has 1 to %d bytes", callBytesMax))
		}
		if cap(call) < int(length) {
			call = make([]byte, length)
		}
		call = call[:length]
		if _, err := io.ReadFull(reader, call); err != nil {
			return err
		}
		target, text, err := parse(call)
		if err != nil {
			return refuse(connection, err)
		}
		reply = fmt.Appendf(reply[:0], `0000{"answer": %d, "text": %s}`, work(target), text)
		binary.BigEndian.PutUint32(reply, uint32(len(reply)-4))
		if _, err := connection.Write(reply); err != nil {
			return err
		}
	}
}

// parse returns the two members of a call. The text stays as written, with its escapes. json.Unmarshal would accept
// names in other case and repeated members, which the other servers refuse.
func parse(call []byte) (uint32, json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(call))
	var target *uint32
	var text json.RawMessage
	if begin, err := decoder.Token(); begin != json.Delim('{') || err != nil || !utf8.Valid(call) {
		return 0, nil, errNotACall
	}
	for decoder.More() {
		name, err := decoder.Token()
		switch {
		case err != nil:
		case name == "target" && target == nil:
			if err = decoder.Decode(&target); target == nil {
				err = errNotACall
			}
		case name == "text" && text == nil:
			err = decoder.Decode(&text)
		default:
			err = errNotACall
		}
		if err != nil {
			return 0, nil, errNotACall
		}
	}
	if _, err := decoder.Token(); err != nil {
		return 0, nil, errNotACall
	}
	if _, err := decoder.Token(); err != io.EOF {
		return 0, nil, errNotACall
	}
	if target == nil || text == nil || text[0] != '"' {
		return 0, nil, errNotACall
	}
	if *target > targetMax {
		return 0, nil, fmt.Errorf("target is %d at most", targetMax)
	}
	return *target, text, nil
}

// work computes an answer: docs/protocols.md, "The work".
func work(target uint32) uint32 {
	x := target
	for step := uint32(0); step < target; step++ {
		x = (x^(x>>15))*1664525 + 1013904223
	}
	return x
}

func refuse(connection net.Conn, why error) error {
	message := fmt.Sprintf(`{"error": %q}`, why)
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	connection.Write(append(frame, message...))
	return why
}
