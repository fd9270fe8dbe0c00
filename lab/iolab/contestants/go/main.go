// Servers in Go as its users write them: a goroutine for each connection, and net/http for HTTP.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8080", "host and port")
	protocol := flag.String("protocol", "http", "http, echo, line or rpc")
	replyBytes := flag.Int("reply-bytes", 1, "length of the body of /")
	flag.Parse()

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	switch *protocol {
	case "http":
		err = serveHTTP(listener, strings.Repeat("x", *replyBytes))
	case "echo":
		err = serve(listener, echo)
	case "line":
		err = serve(listener, line)
	case "rpc":
		err = serve(listener, rpc)
	default:
		err = fmt.Errorf("there is no protocol %q: use http, echo, line or rpc", *protocol)
	}
	log.Fatal(err)
}

// serveHTTP answers / with a body and every other path with 404. The head has the fields that the engine's servers
// send; net/http adds Date.
func serveHTTP(listener net.Listener, body string) error {
	length := strconv.Itoa(len(body))
	http.HandleFunc("/", func(reply http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/" {
			http.NotFound(reply, request)
			return
		}
		head := reply.Header()
		head.Set("Server", "go")
		head.Set("Content-Type", "text/plain")
		head.Set("Content-Length", length)
		io.WriteString(reply, body)
	})
	return http.Serve(listener, nil)
}

// serve has a goroutine converse over each connection. An error ends only its connection.
func serve(listener net.Listener, converse func(net.Conn) error) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			converse(connection)
		}()
	}
}

// echo sends back what it receives. io.Copy would splice the bytes within the kernel, unlike the other servers.
func echo(connection net.Conn) error {
	buffer := make([]byte, 4096)
	for {
		received, err := connection.Read(buffer)
		if err != nil {
			return err
		}
		if _, err := connection.Write(buffer[:received]); err != nil {
			return err
		}
	}
}

const lineBytesMax = 4096

// line sends back each line.
func line(connection net.Conn) error {
	reader := bufio.NewReaderSize(connection, lineBytesMax)
	for {
		line, err := reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			fmt.Fprintf(connection, "error: a line has at most %d bytes\n", lineBytesMax)
			return err
		}
		if err != nil {
			return err
		}
		if _, err := connection.Write(line); err != nil {
			return err
		}
	}
}
